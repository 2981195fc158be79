"""A list of models: which process carries which of them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from transload.pipeline.cluster import ray_cluster
from transload.pipeline.commands import many_models
from transload.pipeline.commands.many_models import do_list
from transload.pipeline.commands.model_work import ListOptions, ModelWork
from transload.pipeline.context import LocalSettings
from transload.pipeline.model_list.list_records import ListCommand
from transload.pipeline.model_list.model_pool import ModelOutcome
from transload.pipeline.model_list.models_file import ListedModel
from transload.pipeline.progress import Progress
from transload.pipeline.result.schema import Verdict


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Where each model was done; the cluster has 128 cores, and models are not really done."""
    places: dict[str, str] = {}

    def do(work: ModelWork, place: str) -> ModelOutcome:
        places[work.model.name] = place
        return ModelOutcome(Verdict.PASS, 0, work.model.name, None, (), ())

    @contextmanager
    def drivers(*arguments: object, **_options: object) -> Iterator[SimpleNamespace]:
        address, count = arguments[2:4]
        place = f"one of {count} at {address}"
        yield SimpleNamespace(work=lambda work: lambda _progress, _workers: do(work, place), stop=lambda: None)

    monkeypatch.setattr(ray_cluster, "connect", lambda _address: SimpleNamespace(cores=128))
    monkeypatch.setattr(many_models, "ListDrivers", drivers)
    monkeypatch.setattr(ModelWork, "__call__", lambda work, _progress, _workers: do(work, "here"))
    return places


def run_list(folder: Path, executors: dict[str, str]) -> None:
    models = []
    for name, executor in executors.items():
        file = folder / f"{name}.toml"
        file.write_text(f'[engine]\nexecutor = "{executor}"\n[bench]\nenabled = false\n')
        models.append(ListedModel(name, file.name, str(folder), is_pipeline=True))
    local = LocalSettings(store=folder / "store", jobs=2)
    do_list(ListCommand.RUN, models, ListOptions(folder / "out"), local, Progress(io.StringIO()))


def test_models_on_a_large_cluster_are_carried_by_processes_and_the_others_here(
    carried: dict[str, str], tmp_path: Path
) -> None:
    run_list(tmp_path, {"alone": "local", **{f"m{at}": "ray://head:1" for at in range(65)}})
    assert carried.pop("alone") == "here"
    assert set(carried.values()) == {"one of 2 at ray://head:1"}


def test_few_models_on_a_large_cluster_are_carried_here(carried: dict[str, str], tmp_path: Path) -> None:
    run_list(tmp_path, {"a": "ray", "b": "ray", **{f"m{at}": "local" for at in range(64)}})
    assert set(carried.values()) == {"here"}
