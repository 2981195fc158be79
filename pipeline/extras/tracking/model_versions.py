"""Versions of registered models for a run that passed, and the alias that moves once all of them are there.

Each artifact has a registered model of its own, NAME-TARGET: a version is a release of one copy, and an alias points to
one of them. What a run registers is told by its id, so that two runs at once do not mix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from .run_figures import ARTIFACT_TAG, FORCED_TAG, RUN_TAG

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

_CREATED_S = 60  # how long the registry may take for a version
_THERE_ALREADY = "RESOURCE_ALREADY_EXISTS"


@dataclass(frozen=True)
class LoggedModel:
    """A model that was logged for an artifact, and what the registry knows of it."""

    artifact: str
    model_id: str
    registered: str | None = None  # name of the registered model
    version: str | None = None
    alias: str | None = None

    @property
    def uri(self) -> str:
        """The address that mlflow loads it from."""
        if self.registered and self.alias:
            return f"models:/{self.registered}@{self.alias}"
        return f"models:/{self.registered}/{self.version}" if self.registered else f"models:/{self.model_id}"


def register_versions(
    client: MlflowClient,
    models: Sequence[LoggedModel],
    *,
    run: tuple[str, str],
    name_of: Callable[[str], str],
    describe: Callable[[str], str],
    alias: str | None = None,
    forced: str | None = None,
) -> list[LoggedModel]:
    """Return the models with a version each; one that an earlier call has made is kept. `run`: the ids of the run in
    MLflow and in transload. `name_of` names the registered model of an artifact, `describe` its version. `alias` moves
    to the versions, once all are there. `forced`: the verdict of a run that did not pass, which tags then say.
    All or nothing: where one is refused, those that were made here are removed, aliases move back, and the error is
    raised again."""
    mlflow_run, own_run = run
    registered = []
    marks = {FORCED_TAG: forced} if forced else {}
    with _undo_on_error() as undo:
        if forced and models:
            undo.append(partial(client.delete_tag, mlflow_run, FORCED_TAG))
            client.set_tag(mlflow_run, FORCED_TAG, forced)
        for model in models:
            name = name_of(model.artifact)
            known = _versions_of(client, mlflow_run, name, model)
            if not known:
                _create_registered(client, name, undo)
                # Before the call: the registry may have made the version although its answer was lost.
                undo.append(partial(_remove_versions, client, mlflow_run, name, model))
                version = client.create_model_version(
                    name,
                    f"models:/{model.model_id}",
                    run_id=mlflow_run,
                    tags={RUN_TAG: own_run, ARTIFACT_TAG: model.artifact, **marks},
                    description=describe(model.artifact),
                    await_creation_for=_CREATED_S,
                    model_id=model.model_id,
                )
                known = [version]
            registered.append(replace(model, registered=name, version=str(known[0].version)))
        return _move_alias(client, registered, alias, undo) if alias else registered


def _move_alias(
    client: MlflowClient, models: Sequence[LoggedModel], alias: str, undo: list[Callable[[], object]]
) -> list[LoggedModel]:
    """Move an alias to the versions of these models; `undo` gets what moves it back."""
    for model in models:
        name = str(model.registered)
        undo.append(partial(_restore, client, name, alias, _aliases_of(client, name).get(alias)))
        client.set_registered_model_alias(name, alias, str(model.version))
    return [replace(model, alias=alias) for model in models]


def _versions_of(client: MlflowClient, run_id: str, name: str, model: LoggedModel) -> list[ModelVersion]:
    """Return the versions of a registered model that were made of a logged model in a run of MLflow."""
    versions = client.search_model_versions(f"run_id='{run_id}'")
    return [row for row in versions if row.name == name and _source_of(row) == model.model_id]


def _remove_versions(client: MlflowClient, run_id: str, name: str, model: LoggedModel) -> None:
    for row in _versions_of(client, run_id, name, model):
        client.delete_model_version(row.name, row.version)


@contextmanager
def _undo_on_error() -> Iterator[list[Callable[[], object]]]:
    """Call what was put into the list, the last first, where something is raised, also by Ctrl-C."""
    steps: list[Callable[[], object]] = []
    try:
        yield steps
    except BaseException:
        for step in reversed(steps):
            with suppress(Exception):  # the first error is the one that is told
                step()
        raise


def _create_registered(client: MlflowClient, name: str, undo: list[Callable[[], object]]) -> None:
    """Create a registered model, unless there is one; `undo` gets what removes it again."""
    if client.search_registered_models(f"name='{name}'"):
        return
    undo.append(partial(_remove_if_empty, client, name))
    try:
        client.create_registered_model(name)
    except Exception as error:
        if not is_there_already(error):
            raise
        undo.pop()  # another run has made it meanwhile: it is not removed with what was made here


def is_there_already(error: Exception) -> bool:
    """Return whether mlflow refused to make something because there is one of that name."""
    return getattr(error, "error_code", None) == _THERE_ALREADY


def _remove_if_empty(client: MlflowClient, name: str) -> None:
    """Remove a registered model that has no version: another run may have put one into it meanwhile."""
    if not client.search_model_versions(f"name='{name}'"):
        client.delete_registered_model(name)


def _aliases_of(client: MlflowClient, name: str) -> Mapping[str, str]:
    aliases: Mapping[str, str] = client.get_registered_model(name).aliases
    return aliases


def _restore(client: MlflowClient, name: str, alias: str, former: str | None) -> None:
    if former is None:
        client.delete_registered_model_alias(name, alias)
    else:
        client.set_registered_model_alias(name, alias, former)


def _source_of(version: object) -> str:
    """Return the id of the logged model that a version was made from."""
    return str(getattr(version, "source", "")).removeprefix("models:/")
