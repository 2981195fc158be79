"""Which models `transload serve` serves, by its words."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from transload.models.artifact import RECORD
from transload.models.errors import BadRequest
from transload.models.signature import parse_input
from transload.pipeline.commands.serve import ServeOptions, find_models
from transload.pipeline.stages import model_process
from transload.pipeline.workers.isolation import Limits, Spawn
from transload.serving.server.repository.version_keeper import VersionSource

INPUTS = ServeOptions(inputs=(parse_input("x=float32[batch,3]"),))


def file(folder: Path, name: str) -> str:
    (folder / name).write_bytes(b"x")
    return str(folder / name)


def test_the_inputs_are_of_the_one_file_that_is_served(tmp_path: Path) -> None:
    a, b = file(tmp_path, "a.onnx"), file(tmp_path, "b.onnx")
    assert [config.base_path for config in find_models([a], INPUTS)] == [Path(a)]
    with pytest.raises(BadRequest) as caught:
        find_models([a, b], INPUTS)
    assert str(caught.value) == "--input is of one model, and there are 2\n  fix: serve the file alone"


def test_an_artifact_says_its_inputs_itself(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text("{}")
    with pytest.raises(BadRequest) as caught:
        find_models([str(tmp_path)], INPUTS)
    assert str(caught.value) == f"{tmp_path} is an artifact, and says what it takes\n  fix: leave --input out"


class JobSent(Exception):
    """A worker was asked for a job."""


@pytest.mark.parametrize("made", [True, False], ids=["artifact", "file"])
@pytest.mark.parametrize("trust", [True, False])
def test_trust_reaches_the_check_of_the_file_and_the_walls(
    trust: bool, made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an artifact that was converted with --trust could never be served."""
    sent: list[Any] = []

    class Worker:
        def __init__(self, spawn: Spawn, on_end: object) -> None:
            sent.append(spawn.limits.walled)

        def work(self, entry: str, job: dict[str, Any]) -> None:
            sent.append(bool(job["options"].get("trust")))
            raise JobSent

        def kill(self, why: str) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setattr(model_process, "Worker", Worker)
    monkeypatch.setattr(model_process, "check_runtime", lambda folder: "onnxruntime")
    (tmp_path / (RECORD if made else "a.onnx")).write_text("{}")
    (tmp_path / "process-0").mkdir()
    processes = model_process.ModelProcesses(tmp_path, Limits(walled=not trust))
    with pytest.raises(JobSent):
        processes.open(VersionSource("net", 1, tmp_path if made else tmp_path / "a.onnx"), Event())
    assert sent == [not trust, trust]
