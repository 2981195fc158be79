"""Versions and aliases: all of a run's or none, the alias last, and nothing of another run's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from transload.pipeline.tracking.model_versions import LoggedModel, move_alias, register_versions


class RegistryError(Exception):
    """What mlflow raises, as far as it is read."""

    def __init__(self, error_code: str) -> None:
        super().__init__(error_code)
        self.error_code = error_code


@dataclass(frozen=True)
class Version:
    name: str
    version: str
    source: str
    run_id: str


@dataclass
class Registry:
    """The part of MlflowClient that is called, over dicts."""

    refuse: str = ""  # the registered model that is refused
    versions: list[Version] = field(default_factory=list)
    models: dict[str, dict[str, str]] = field(default_factory=dict)  # name -> aliases
    calls: list[str] = field(default_factory=list)

    def search_model_versions(self, query: str) -> list[Version]:
        key, _, value = query.partition("=")
        return [row for row in self.versions if getattr(row, key) == value.strip("'")]

    def create_registered_model(self, name: str) -> None:
        if name in self.models:
            raise RegistryError("RESOURCE_ALREADY_EXISTS")
        self.models[name] = {}

    def create_model_version(self, name: str, source: str, *, run_id: str, **_: Any) -> Version:
        if name == self.refuse:
            raise RegistryError("PERMISSION_DENIED")
        count = sum(row.name == name for row in self.versions)
        self.versions.append(Version(name, str(count + 1), source, run_id))
        self.calls.append(f"version {name}")
        return self.versions[-1]

    def delete_model_version(self, name: str, version: str) -> None:
        self.versions = [row for row in self.versions if (row.name, row.version) != (name, version)]

    def delete_registered_model(self, name: str) -> None:
        del self.models[name]

    def get_registered_model(self, name: str) -> Any:
        return type("Model", (), {"aliases": dict(self.models[name])})

    def set_registered_model_alias(self, name: str, alias: str, version: str) -> None:
        if name == self.refuse:
            raise RegistryError("PERMISSION_DENIED")
        self.calls.append(f"alias {name}")
        self.models[name][alias] = version

    def delete_registered_model_alias(self, name: str, alias: str) -> None:
        del self.models[name][alias]


MODELS = [LoggedModel("onnx", "m-1"), LoggedModel("tflite", "m-2")]


def register(registry: Registry, run: str = "r1", models: list[LoggedModel] = MODELS) -> list[LoggedModel]:
    return register_versions(
        registry,  # a fake of the client
        models,
        run=(run, "id"),
        name_of=lambda artifact: f"net-{artifact}",
        describe=lambda artifact: artifact,
    )


def test_the_alias_moves_once_all_versions_are_there() -> None:
    registry = Registry()
    moved = move_alias(registry, register(registry), "champion")
    assert registry.calls == ["version net-onnx", "version net-tflite", "alias net-onnx", "alias net-tflite"]
    assert [model.uri for model in moved] == ["models:/net-onnx@champion", "models:/net-tflite@champion"]


def test_a_call_that_is_repeated_makes_no_second_version() -> None:
    registry = Registry()
    assert register(registry) == register(registry)
    assert len(registry.versions) == 2


def test_of_a_refused_registration_nothing_stays() -> None:
    registry = Registry(refuse="net-tflite")
    with pytest.raises(RegistryError, match="PERMISSION_DENIED"):
        register(registry)
    assert (registry.versions, registry.models) == ([], {})


def test_what_other_runs_have_registered_stays() -> None:
    registry = Registry()
    register(registry, "r0", [LoggedModel("onnx", "m-0"), LoggedModel("tflite", "m-9")])
    former = list(registry.versions)
    registry.refuse = "net-tflite"
    with pytest.raises(RegistryError):
        register(registry)
    assert registry.versions == former
    assert [*registry.models] == ["net-onnx", "net-tflite"]


def test_a_refused_alias_moves_the_others_back() -> None:
    registry = Registry()
    move_alias(registry, register(registry, "r0", MODELS[:1]), "champion")
    newer = register(registry, "r1", [LoggedModel("onnx", "m-3"), LoggedModel("tflite", "m-4")])
    registry.refuse = "net-tflite"
    with pytest.raises(RegistryError):
        move_alias(registry, newer, "champion")
    assert registry.models == {"net-onnx": {"champion": "1"}, "net-tflite": {}}
