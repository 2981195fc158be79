"""Which models `transload serve` serves, by its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.models.artifact import RECORD
from transload.models.errors import BadRequest
from transload.models.signature import parse_input
from transload.pipeline.commands.serve import ServeOptions, find_models

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
