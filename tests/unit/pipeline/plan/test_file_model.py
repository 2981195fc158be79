"""What taking in a file may cost, and what is said where it costs more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from transload.models.errors import BadRequest, StepFailed, StepOutOfMemory, StepTimeout
from transload.models.formats import Format
from transload.pipeline.options.request import read_request
from transload.pipeline.plan.context import Context
from transload.pipeline.plan.file_model import load_file, size_of_model
from transload.pipeline.plan.model_argument import ModelRequest
from transload.pipeline.progress.progress import Progress


def context(tmp_path: Path, executor: Any = None, **sections: Any) -> Context:
    return Context(read_request(None, sections), executor, tmp_path, Progress(quiet=True), "cpu", 1)


@pytest.mark.parametrize(
    ("sections", "size", "limits"),
    [
        ({}, 0, (60, 2 << 30)),
        ({}, 50_000_000, (61, (2 << 30) + 500_000_000)),
        ({"model": {"seconds": 5}}, 50_000_000, (5, (2 << 30) + 500_000_000)),
        ({"convert": {"step_memory_gb": 0.5}}, 0, (60, 500_000_000)),
        ({"convert": {"step_memory_gb": 5}}, 0, (60, 5_000_000_000)),
        ({"model": {"trust": True}, "convert": {"step_memory_gb": 5}}, 0, (600, 5_000_000_000)),
    ],
)
def test_a_file_has_little_time_and_memory_by_its_size_unless_more_is_asked_for(
    sections: dict[str, Any], size: int, limits: tuple[float, int], tmp_path: Path
) -> None:
    granted = context(tmp_path, **sections).intake_limits(size)
    assert (granted.seconds, granted.memory_bytes) == limits


@pytest.mark.parametrize(
    ("sections", "compiles", "answer_s"),
    [
        ({}, False, 26),
        ({}, True, 301),
        ({"model": {"trust": True}}, False, None),
        ({"model": {"seconds": 5}}, False, None),  # which the whole step has
    ],
)
def test_the_first_answer_has_little_time_unless_a_compiler_is_in_it(
    sections: dict[str, Any], compiles: bool, answer_s: float | None, tmp_path: Path
) -> None:
    assert context(tmp_path, **sections).call_limits(50_000_000, compiles=compiles).answer_s == answer_s


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (StepTimeout, "m.onnx was not read in 60 s\n  fix: give it more time with --model-seconds"),
        (
            StepOutOfMemory,
            "reading m.onnx took more memory than 2.15 GB"
            "\n  fix: where you trust whoever made it, give --trust, and it may take what a conversion may",
        ),
    ],
)
def test_a_file_that_takes_more_is_refused_in_one_sentence(
    failure: type[StepFailed], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingExecutor:
        def perform(self, action: object) -> None:
            raise failure("the worker ended", fix="read the log")

    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(b"x")
    with pytest.raises(BadRequest) as caught:
        load_file(context(tmp_path, FailingExecutor()), ModelRequest("m.onnx"), Format.ONNX)
    assert str(caught.value) == said


def test_the_size_of_an_onnx_file_is_with_its_data_and_without_what_no_disk_holds(tmp_path: Path) -> None:
    for name in ("a.onnx", "w.bin", "sparse"):
        (tmp_path / name).write_bytes(b"x" * 10_000)
    os.truncate(tmp_path / "sparse", 1 << 40)
    assert 20_000 <= size_of_model(tmp_path / "a.onnx", Format.ONNX) < 100_000
    assert size_of_model(tmp_path / "a.onnx", Format.TFLITE) == 10_000
    (tmp_path / "folder").mkdir()
    assert size_of_model(tmp_path / "folder", Format.ONNX) == 0
