"""Axes of outputs are named by what the model does, and not by what a file happens to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from transload.converters.readers.output_axes import name_output_axes
from transload.models.signature import Signature, parse_input

IMAGE, IDS = parse_input("x=float32[batch,time,3]"), parse_input("n=int64[batch=1..8]")

CASES = [
    (lambda batch, time: (batch, 4), ("y_0", 4), ("batch", 4)),
    (lambda batch, time: (batch, time), ("y_0", "y_1"), ("batch", "time")),
    (lambda batch, time: (time, batch), ("y_0", "y_1"), ("time", "batch")),
    (lambda batch, time: (2 * batch, 4), ("y_0", 4), ("y_0", 4)),
    (lambda batch, time: (batch + time, 4), ("y_0", 4), ("y_0", 4)),
    (lambda batch, time: (7, 4), ("y_0", 4), ("y_0", 4)),
    (lambda batch, time: (batch, 4), ("batch", 4), ("batch", 4)),
]


@pytest.mark.parametrize(("shape", "declared", "named"), CASES)
def test_an_axis_that_follows_an_input_has_its_name(shape: Any, declared: Any, named: Any) -> None:
    def run(feeds: Mapping[str, Any]) -> list[tuple[int, ...]]:
        return [shape(*feeds["x"].shape[:2])]

    (output,) = (parse_input(f"y=float32[{','.join(map(str, declared))}]"),)
    signature = Signature((IMAGE, IDS), (output,))
    assert name_output_axes(signature, lambda: run).outputs[0].shape == named


def test_what_the_file_says_is_not_asked_and_a_refusal_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> Any:
        raise RuntimeError("no such runtime")

    complete = Signature((IMAGE,), (parse_input("y=float32[batch,3]"),))
    assert name_output_axes(complete, fail) == complete
    assert capsys.readouterr().out == ""
    open_ended = Signature((IMAGE,), (parse_input("y=float32[y_0,3]"),))
    assert name_output_axes(open_ended, fail) == open_ended
    assert "which axes the outputs share with the inputs is not asked: no such runtime" in capsys.readouterr().out
