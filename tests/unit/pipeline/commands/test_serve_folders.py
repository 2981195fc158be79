"""Which models the argument of `serve` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.models.artifact import write_artifact
from transload.models.errors import BadRequest
from transload.models.formats import Format, Target
from transload.models.signature import Signature, parse_input
from transload.pipeline.commands.serve import _configs_of, _Warnings
from transload.pipeline.options.serve_options import ServeOptions

SIGNATURE = Signature((parse_input("x=float32[batch,3]"),), (parse_input("y=float32[batch,3]"),))


def test_each_artifact_of_a_whole_convert_is_a_model(tmp_path: Path) -> None:
    for name in ("onnx", "source", "tflite"):
        (tmp_path / "made" / name).mkdir(parents=True)
        (tmp_path / "made" / name / "model.onnx").touch()
        write_artifact(tmp_path / "made" / name, Target(Format.ONNX), SIGNATURE)
    made = tmp_path / "made"
    assert [(config.name, config.base_path) for config in _configs_of(str(made))] == [
        ("onnx", made / "onnx"), ("tflite", made / "tflite"),
    ]  # fmt: skip
    assert [config.name for config in _configs_of(f"digits={made}")] == ["digits-onnx", "digits-tflite"]
    assert [config.name for config in _configs_of(str(made / "onnx"))] == ["onnx"]


def test_a_folder_without_artifacts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with pytest.raises(BadRequest, match="is no artifact's folder"):
        _configs_of(str(tmp_path))


def test_what_is_said_while_models_are_loaded_is_told_when_all_answer() -> None:
    told: list[str] = []
    warnings = _Warnings(told.append)
    warnings.say("m is served without batches")
    assert told == [], "the command may yet end with the error"
    warnings.begin(ServeOptions())
    warnings.say("m died")
    assert told[-2:] == ["m is served without batches", "m died"]
