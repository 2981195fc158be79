"""Versions and aliases: all of a run's or none, the alias last, and nothing of another run's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from transload.pipeline.extras.tracking.model_versions import LoggedModel, register_versions


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
    refuse_alias: str = ""  # the one whose alias is
    lose: str = ""  # the one whose version is made, and the answer lost
    versions: list[Version] = field(default_factory=list)
    models: dict[str, dict[str, str]] = field(default_factory=dict)  # name -> aliases
    calls: list[str] = field(default_factory=list)
    run_tags: dict[str, str] = field(default_factory=dict)
    version_tags: list[dict[str, str]] = field(default_factory=list)

    def set_tag(self, run_id: str, key: str, value: str) -> None:
        assert run_id
        self.run_tags[key] = value

    def delete_tag(self, run_id: str, key: str) -> None:
        assert run_id
        del self.run_tags[key]

    def search_model_versions(self, query: str) -> list[Version]:
        key, _, value = query.partition("=")
        return [row for row in self.versions if getattr(row, key) == value.strip("'")]

    def search_registered_models(self, query: str) -> list[str]:
        return [name for name in self.models if query == f"name='{name}'"]

    def create_registered_model(self, name: str) -> None:
        if name in self.models:
            raise RegistryError("RESOURCE_ALREADY_EXISTS")
        self.models[name] = {}

    def create_model_version(self, name: str, source: str, *, run_id: str, tags: dict[str, str], **_: Any) -> Version:
        if name == self.refuse:
            raise RegistryError("PERMISSION_DENIED")
        count = sum(row.name == name for row in self.versions)
        self.versions.append(Version(name, str(count + 1), source, run_id))
        self.calls.append(f"version {name}")
        self.version_tags.append(tags)
        if name == self.lose:
            raise RegistryError("TIMEOUT")
        return self.versions[-1]

    def delete_model_version(self, name: str, version: str) -> None:
        self.versions = [row for row in self.versions if (row.name, row.version) != (name, version)]

    def delete_registered_model(self, name: str) -> None:
        del self.models[name]

    def get_registered_model(self, name: str) -> Any:
        return type("Model", (), {"aliases": dict(self.models[name])})

    def set_registered_model_alias(self, name: str, alias: str, version: str) -> None:
        if name == self.refuse_alias:
            raise RegistryError("PERMISSION_DENIED")
        self.calls.append(f"alias {name}")
        self.models[name][alias] = version

    def delete_registered_model_alias(self, name: str, alias: str) -> None:
        del self.models[name][alias]


MODELS = [LoggedModel("onnx", "m-1"), LoggedModel("tflite", "m-2")]


def register(
    registry: Registry,
    run: str = "r1",
    models: list[LoggedModel] = MODELS,
    alias: str | None = None,
    forced: str | None = None,
) -> list[LoggedModel]:
    return register_versions(
        registry,  # a fake of the client
        models,
        run=(run, "id"),
        name_of=lambda artifact: f"net-{artifact}",
        describe=lambda artifact: artifact,
        alias=alias,
        forced=forced,
    )


def test_the_alias_moves_once_all_versions_are_there() -> None:
    registry = Registry()
    moved = register(registry, alias="champion")
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


def test_a_version_whose_answer_was_lost_does_not_stay() -> None:
    registry = Registry(lose="net-tflite")
    with pytest.raises(RegistryError, match="TIMEOUT"):
        register(registry)
    assert (registry.versions, registry.models) == ([], {})


def test_a_registered_model_that_was_empty_before_stays() -> None:
    registry = Registry(refuse="net-onnx", models={"net-onnx": {}})
    with pytest.raises(RegistryError):
        register(registry)
    assert registry.models == {"net-onnx": {}}


def test_what_other_runs_have_registered_stays() -> None:
    registry = Registry()
    register(registry, "r0", [LoggedModel("onnx", "m-0"), LoggedModel("tflite", "m-9")])
    former = list(registry.versions)
    registry.refuse = "net-tflite"
    with pytest.raises(RegistryError):
        register(registry)
    assert registry.versions == former
    assert [*registry.models] == ["net-onnx", "net-tflite"]


def test_of_a_refused_alias_no_version_stays_and_the_others_move_back() -> None:
    registry = Registry()
    register(registry, "r0", MODELS[:1], alias="champion")
    former = list(registry.versions)
    registry.refuse_alias = "net-tflite"
    newer = [LoggedModel("onnx", "m-3"), LoggedModel("tflite", "m-4")]
    with pytest.raises(RegistryError):
        register(registry, "r1", newer, alias="champion")
    assert registry.models == {"net-onnx": {"champion": "1"}}
    assert registry.versions == former
    registry.refuse_alias = ""
    moved = register(registry, "r1", newer, alias="champion")
    assert [model.uri for model in moved] == ["models:/net-onnx@champion", "models:/net-tflite@champion"]
    assert {name: aliases["champion"] for name, aliases in registry.models.items()} == {
        "net-onnx": "2", "net-tflite": "1",
    }  # fmt: skip


def test_an_alias_goes_to_versions_that_an_earlier_call_made() -> None:
    registry = Registry()
    register(registry)
    registry.refuse_alias = "net-tflite"
    with pytest.raises(RegistryError):
        register(registry, alias="champion")
    assert len(registry.versions) == 2, "what this call has not made stays"
    assert registry.models == {"net-onnx": {}, "net-tflite": {}}


def test_a_forced_promotion_is_a_tag_of_the_run_and_of_its_versions() -> None:
    registry = Registry()
    register(registry, alias="champion", forced="fail")
    assert registry.run_tags == {"transload.forced": "fail"}
    assert [tags["transload.forced"] for tags in registry.version_tags] == ["fail", "fail"]
    plain = Registry()
    register(plain, alias="champion")
    assert plain.run_tags == {}
    assert all("transload.forced" not in tags for tags in plain.version_tags)


def test_a_forced_promotion_that_is_refused_leaves_no_tag() -> None:
    registry = Registry(refuse_alias="net-tflite")
    with pytest.raises(RegistryError):
        register(registry, alias="champion", forced="fail")
    assert (registry.run_tags, registry.versions) == ({}, [])
