"""A finished run in MLflow: its figures, its files, a model for each verified artifact; then versions and an alias.

A record is whole or not there: the run in MLflow is FINISHED once everything has been sent, and deleted where that
fails. A record of the same run.json is found again by its digest, so that a call that was cut off is simply repeated.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....models.artifact import read_artifact
from ...result.schema import ArtifactRow, RunResult, Status, Verdict
from ...result.verified_artifact import find_artifact
from ...show.card.card_records import Card, read_card
from .golden_answers import GoldenAnswers, read_golden_answers
from .model_folder import ModelIdentity, describe_model, why_not_logged, write_model_folder
from .model_versions import LoggedModel, is_there_already, register_versions
from .run_figures import (
    ARTIFACT_TAG,
    DIGEST_TAG,
    STATUS_TAG,
    artifact_slug,
    run_figures,
    run_files,
    run_page,
    run_params,
    run_tags,
    started_ms,
)
from .tracking_server import TrackingServer

if TYPE_CHECKING:
    from mlflow import MlflowClient

_MOST_METRICS, _MOST_PARAMS = 1000, 100  # of one request of mlflow
_FINISHED = "FINISHED"


@dataclass(frozen=True)
class RecordedRun:
    """A run as MLflow has it."""

    address: str
    experiment: str
    experiment_id: str
    run_id: str
    models: tuple[LoggedModel, ...]
    notes: tuple[str, ...] = ()  # a sentence for each artifact that is not as usual

    @property
    def page(self) -> str:
        """The run's page on a server, or where it lies."""
        return run_page(self.address, self.experiment_id, self.run_id)


@dataclass(frozen=True)
class FinishedFolder:
    """The folder of a finished run, its result, and the name of its model."""

    folder: Path
    result: RunResult
    model: str

    @property
    def verified(self) -> list[ArtifactRow]:
        """The artifacts that may be logged as models."""
        return [row for row in self.result.artifacts if row.status is Status.VERIFIED and row.path]

    def place_of(self, row: ArtifactRow) -> Path:
        """Return the folder of an artifact."""
        return (self.folder / str(row.path)).parent


def record_run(
    server: TrackingServer, run: FinishedFolder, *, experiment: str, promote: str | None = None, force: bool = False
) -> RecordedRun:
    """Send a run to a server, unless it has it; register versions where it passed, and then move the alias `promote`.
    `force`: do so whatever the verdict, and tag the run and its versions with it.
    Raises what mlflow raises, and BadRequest where an artifact has changed since the run."""
    client = server.client
    experiment_id = _experiment_id(client, experiment)
    known = client.search_runs(
        [experiment_id],
        f"tags.`{DIGEST_TAG}` = '{run_tags(run.result, run.folder)[DIGEST_TAG]}' and attributes.status = '{_FINISHED}'",
        max_results=1,
    )
    run_id, notes = (known[0].info.run_id, ()) if known else _log_run(client, experiment_id, run)
    models: Sequence[LoggedModel] = _logged_models(client, experiment_id, run_id)
    is_pass = run.result.verdict is Verdict.PASS
    if is_pass or (force and promote):
        rows = {row.name: row for row in run.verified}
        models = register_versions(
            client,
            models,
            run=(run_id, run.result.id),
            name_of=lambda artifact: f"{run.model}-{artifact_slug(artifact)}",
            describe=lambda artifact: describe_model(read_artifact(run.place_of(rows[artifact]))),
            alias=promote,
            forced=None if is_pass else str(run.result.verdict),
        )
    return RecordedRun(server.address, experiment, experiment_id, run_id, tuple(models), tuple(notes))


def _experiment_id(client: MlflowClient, name: str) -> str:
    """Return the id of the experiment, which is made where there is none; another run may make it at the same time."""
    known = client.get_experiment_by_name(name)
    if known is None:
        try:
            return str(client.create_experiment(name))
        except Exception as error:
            if not is_there_already(error):
                raise
            known = client.get_experiment_by_name(name)
    return str(known.experiment_id)


@dataclass(frozen=True)
class _OpenRecord:
    """A run that is being logged."""

    client: MlflowClient
    experiment_id: str
    run_id: str
    run: FinishedFolder


def _log_run(client: MlflowClient, experiment_id: str, run: FinishedFolder) -> tuple[str, tuple[str, ...]]:
    """Log a run whole, and return its id in MLflow with the notes; nothing of it stays where that fails."""
    tags = run_tags(run.result, run.folder)
    created = client.create_run(experiment_id, started_ms(run.result), tags, run.result.id)
    run_id = str(created.info.run_id)
    try:
        notes = _log_content(_OpenRecord(client, experiment_id, run_id, run))
        client.set_terminated(run_id, _FINISHED, started_ms(run.result) + round(run.result.seconds * 1000))
    except BaseException:
        with suppress(Exception):  # the first error is the one that is told
            client.set_terminated(run_id, "FAILED")
            for model in _logged_models(client, experiment_id, run_id, ready=False):
                client.delete_logged_model(model.model_id)
            client.delete_run(run_id)
        raise
    return run_id, notes


def _log_content(record: _OpenRecord) -> tuple[str, ...]:
    """Log parameters, files, models and metrics; return the notes."""
    from mlflow.entities import LoggedModelOutput, Metric, Param

    client, run_id, run = record.client, record.run_id, record.run
    params = [Param(name, value) for name, value in run_params(run.result, run.model).items()]
    for at in range(0, len(params), _MOST_PARAMS):
        client.log_batch(run_id, params=params[at : at + _MOST_PARAMS])
    for path in run_files(run.folder):
        if path.is_dir():
            client.log_artifacts(run_id, str(path), path.name)
        else:
            client.log_artifact(run_id, str(path))
    models, notes = _log_models(record)
    if models:
        client.log_outputs(run_id, [LoggedModelOutput(model_id, 0) for model_id in models.values()])
    started = started_ms(run.result)
    metrics = [
        Metric(figure.name, figure.value, started, 0, models.get(figure.artifact or ""), run_id=run_id)
        for figure in run_figures(run.result)
    ]
    for at in range(0, len(metrics), _MOST_METRICS):
        client.log_batch(run_id, metrics=metrics[at : at + _MOST_METRICS])
    return notes


def _log_models(record: _OpenRecord) -> tuple[dict[str, str], tuple[str, ...]]:
    """Log a model for each verified artifact; return their ids by artifact, and the notes."""
    run = record.run
    models: dict[str, str] = {}
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="transload-mlflow-") as scratch:
        golden = read_golden_answers(run.folder, Path(scratch)) if run.verified else None
        if run.verified and golden is None:
            notes.append("the store no longer has the samples of this run: models have no input example")
        for row in run.verified:
            if reason := why_not_logged(read_artifact(run.place_of(row))):
                notes.append(f"{row.name} is no model in MLflow: {reason}")
                continue
            models[row.name] = _log_model(record, row, golden, Path(scratch))
    return models, tuple(notes)


def _log_model(record: _OpenRecord, row: ArtifactRow, golden: GoldenAnswers | None, scratch: Path) -> str:
    """Log one artifact as a model, and return its id. Raises BadRequest where its payload has changed since."""
    import mlflow

    client, run = record.client, record.run
    verified = find_artifact(run.place_of(row), ())  # it computes the digest
    tags = {ARTIFACT_TAG: row.name, STATUS_TAG: str(row.status), DIGEST_TAG: str(row.sha256)}
    model = client.create_logged_model(record.experiment_id, artifact_slug(row.name), record.run_id, tags)
    packages = run.result.environment.packages
    facts: dict[str, Any] = {
        "transload": run.result.transload_version,
        "run": run.result.id,
        "artifact": row.name,
        "sha256": row.sha256,
        "route": list(row.route),
        "least_sqnr_db": verified.least_db,
    }
    out = scratch / model.model_id
    write_model_folder(
        out,
        read_artifact(verified.folder),
        ModelIdentity(model_id=model.model_id, run_id=record.run_id, mlflow=mlflow.__version__),
        golden=golden if golden and _fits(golden, row) else None,
        requirements=_requirements(read_card(verified.folder), packages),
        packages=packages,
        facts=facts,
    )
    client.log_model_artifacts(model.model_id, str(out))
    shutil.rmtree(out)  # of large models one copy at a time lies on the disk
    client.finalize_logged_model(model.model_id, "READY")
    return str(model.model_id)


def _fits(golden: GoldenAnswers, row: ArtifactRow) -> bool:
    """Return whether the samples have the names of an artifact's signature."""
    signature = row.signature
    return signature is not None and (
        {spec.name for spec in signature.inputs} == {*golden.inputs}
        and {spec.name for spec in signature.outputs} == {*golden.outputs}
    )


def _requirements(card: Card | None, packages: dict[str, str]) -> list[str]:
    """Return what the artifact was verified with; mlflow.onnx reads the file with the package onnx, too."""
    lines = list(card.runtime.requirements) if card else []
    if card and card.target.startswith("onnx") and "onnx" in packages:
        lines.append(f"onnx=={packages['onnx']}")
    return lines


def _logged_models(client: MlflowClient, experiment_id: str, run_id: str, *, ready: bool = True) -> list[LoggedModel]:
    """Return the models that were logged in a run, in the order of their names; `ready`: only those that are whole."""
    models: list[LoggedModel] = []
    token = None
    while True:
        page = client.search_logged_models([experiment_id], f"source_run_id = '{run_id}'", page_token=token)
        models += [
            LoggedModel(model.tags.get(ARTIFACT_TAG, model.name), model.model_id)
            for model in page
            if str(model.status) == "READY" or not ready
        ]
        token = page.token
        if not token:
            return sorted(models, key=lambda model: model.artifact)
