"""How many models are carried at once, and which of them are begun first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from transload.models.store import Store
from transload.pipeline.commands.models_in_flight import models_at_once, order_by_duration
from transload.pipeline.extras.cluster import ray_cluster
from transload.pipeline.options.request import RunRequest, read_request
from transload.pipeline.plan.context import LocalSettings


@pytest.fixture
def cluster_of_12_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "connect", lambda address: SimpleNamespace(cores=12))


def requests(*executors: str, bench: bool = True) -> list[RunRequest]:
    return [read_request(None, {"engine": {"executor": name}, "bench": {"enabled": bench}}) for name in executors]


@pytest.mark.usefixtures("cluster_of_12_cores")
def test_as_many_models_at_once_as_there_are_workers_here_or_cores_in_the_cluster() -> None:
    local = LocalSettings(jobs=2)
    assert models_at_once(requests("local", "local"), local) == 2
    assert models_at_once(requests("local", "ray"), local) == 12
    assert models_at_once(requests("local", "local"), LocalSettings(jobs=2, executor="ray")) == 12
    assert models_at_once(requests("ray"), LocalSettings(jobs=16)) == 16


@pytest.mark.usefixtures("cluster_of_12_cores")
def test_what_is_measured_here_is_measured_one_after_the_other() -> None:
    local = LocalSettings(jobs=2)
    assert models_at_once(requests("local", "ray"), local, measures=True) == 1
    assert models_at_once(requests("ray", "ray"), local, measures=True) == 12
    assert models_at_once(requests("local", bench=False), local, measures=True) == 2


def requests_of(*models: str, to: tuple[str, ...] = ("onnx",)) -> list[tuple[RunRequest, str]]:
    return [(read_request(None, {"model": {"recipe": model}, "convert": {"targets": to}}), model) for model in models]


def keep_steps(root: Path, seconds: dict[str, dict[str, float]]) -> LocalSettings:
    for model, steps in seconds.items():
        store = Store(root, model=model)
        for step, step_s in steps.items():
            with store.workspace() as work:
                (work / "out").mkdir()
                store.commit(f"{model}-{step}".replace("/", "-"), work / "out", {}, step_s, step=step)
    return LocalSettings(store=root)


def order_of(models: list[tuple[RunRequest, str]], local: LocalSettings, at_once: int = 1) -> list[str]:
    return [name for _, name in order_by_duration(models, lambda pair: pair, local, at_once)]


def test_models_that_took_long_in_a_former_run_are_begun_first(tmp_path: Path) -> None:
    steps = {"timm:a": {"convert.onnx.x": 1.0}, "timm:b": {"convert.onnx.x": 2.0, "convert.tflite.y": 9.0},
             "timm:c": {"convert.onnx.x": 3.0}}  # fmt: skip
    local = keep_steps(tmp_path / "store", steps)
    names = ("timm:a", "timm:new", "timm:b", "timm:c")
    assert order_of(requests_of(*names), local) == ["timm:c", "timm:new", "timm:a", "timm:b"]
    assert order_of(requests_of(*names, to=("onnx", "tflite")), local)[0] == "timm:b"
    assert order_of(requests_of(*names), local, at_once=4) == list(names)


def test_without_a_former_run_the_largest_file_is_begun_first(tmp_path: Path) -> None:
    (tmp_path / "small.onnx").write_bytes(b"1")
    (tmp_path / "large.onnx").write_bytes(b"123")
    names = ("torchvision:resnet18", f"{tmp_path}/small.onnx", f"{tmp_path}/large.onnx")
    order = order_of(requests_of(*names), LocalSettings(store=tmp_path / "store"))
    assert [Path(name).name for name in order] == ["large.onnx", "small.onnx", "torchvision:resnet18"]
