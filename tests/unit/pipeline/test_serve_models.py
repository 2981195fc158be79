"""Which models `transload serve` serves, by its words."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from transload.models.artifact import RECORD, write_artifact
from transload.models.errors import BadRequest, StepFailed, StepOutOfMemory, StepTimeout
from transload.models.formats import Format, Target
from transload.models.signature import Signature, parse_input
from transload.pipeline.commands.serve import find_models
from transload.pipeline.commands.stages import model_process
from transload.pipeline.options.serve_options import ServeOptions
from transload.pipeline.workers.isolation import Limits, Spawn
from transload.serving.server.repository.version_keeper import VersionSource

INPUTS = (parse_input("x=float32[batch,3]"),)


def file(folder: Path, name: str) -> str:
    (folder / name).write_bytes(b"x")
    return str(folder / name)


def test_the_inputs_are_of_the_one_file_that_is_served(tmp_path: Path) -> None:
    a, b = file(tmp_path, "a.onnx"), file(tmp_path, "b.onnx")
    assert [config.base_path for config in find_models(ServeOptions(models=(a,), inputs=INPUTS))] == [Path(a)]
    with pytest.raises(BadRequest) as caught:
        find_models(ServeOptions(models=(a, b), inputs=INPUTS))
    assert str(caught.value) == "--input is of one model, and there are 2\n  fix: serve the file alone"


def test_an_artifact_says_its_inputs_itself(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text("{}")
    with pytest.raises(BadRequest) as caught:
        find_models(ServeOptions(models=(str(tmp_path),), inputs=INPUTS))
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

    def run_alone(entry: str, job: dict[str, Any], spawn: Spawn) -> None:
        sent.extend((spawn.limits.walled, bool(job["options"].get("trust")), spawn.limits.seconds))
        raise JobSent

    monkeypatch.setattr(model_process, "run_alone", run_alone)
    monkeypatch.setattr(model_process, "check_runtime", lambda folder: "onnxruntime")
    (tmp_path / ("model.onnx" if made else "a.onnx")).write_bytes(b"{}")
    if made:
        write_artifact(tmp_path, Target(Format.ONNX), Signature(INPUTS, INPUTS))
    scratch = tmp_path.with_name(f"{tmp_path.name}-scratch")
    processes = model_process.ModelProcesses(scratch, Limits(walled=not trust, seconds=600))
    with pytest.raises(JobSent):
        processes.open(VersionSource("net", 1, tmp_path if made else tmp_path / "a.onnx"), Event())
    assert sent[:2] == [not trust, trust]
    assert sent[2] == pytest.approx(600 if trust else 60, rel=1e-3)


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (
            StepTimeout,
            r"a\.onnx was not read in 60 s\n  fix: where you trust whoever made it, give --trust, and it has",
        ),
        (StepOutOfMemory, r"reading .*a\.onnx took more memory than 2\.15 GB\n  fix: where you trust whoever made it"),
    ],
)
def test_a_model_that_takes_too_much_to_check_is_refused(
    failure: type[StepFailed], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_alone(entry: str, job: dict[str, Any], spawn: Spawn) -> None:
        raise failure("it ended", fix="")

    monkeypatch.setattr(model_process, "run_alone", run_alone)
    path = Path(file(tmp_path, "a.onnx"))
    with pytest.raises(BadRequest, match=said):
        model_process.ModelProcesses(tmp_path, Limits()).open(VersionSource("net", 1, path), Event())


def test_a_served_model_that_is_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.onnx")
    with pytest.raises(BadRequest, match="is no file but a pipe"):
        model_process.ModelProcesses(tmp_path, Limits()).open(VersionSource("n", 1, tmp_path / "a.onnx"), Event())
