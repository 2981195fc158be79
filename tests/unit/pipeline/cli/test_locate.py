"""What `transload locate` prints beside the places."""

from __future__ import annotations

from pathlib import Path

import pytest

from transload.models.formats import Format, Precision, Target
from transload.pipeline.cli.locate import _lines
from transload.pipeline.commands.locate import LocateResult
from transload.pipeline.locate.locate_records import CaptureFacts

INT8 = Target(Format.TFLITE, Precision.INT8)


@pytest.mark.parametrize(
    ("target", "departs", "is_named"), [(INT8, True, True), (INT8, False, False), (Target(Format.TFLITE), True, False)]
)
def test_the_command_that_keeps_layers_in_float32_is_named(target: Target, departs: bool, is_named: bool) -> None:
    capture = CaptureFacts(calls=2, agreement_db=12.0, departs=departs, call="batch 1")
    lines = _lines(LocateResult(capture, None, Path("runs/1"), target), ["net.py:Net", "--data", "set.npz"])
    command = "transload convert net.py:Net --data set.npz --to tflite:int8 --keep-float auto"
    assert (f"to keep the layers in float32 that lose most: {command}" in lines) is is_named
