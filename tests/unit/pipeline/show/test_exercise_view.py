"""What copies were asked, in a sentence that names what was not."""

from __future__ import annotations

import pytest

from transload.pipeline.result.schema import ExercisedRow, InputValuesRow
from transload.pipeline.show.exercise_view import Exercise


@pytest.mark.parametrize(
    ("dtype", "most", "declared", "stress", "words"),
    [
        ("int64", 29, None, (), "ids beyond 0 to 29: nothing declares them"),
        ("int32", 29, (0, 29), (), "nothing"),
        ("int64", 29, None, ("ids integers",), "nothing"),
        ("int64", 1, None, (), "nothing"),  # a mask
        ("uint8", 255, None, (), "nothing"),
        ("float32", 3.5, None, (), "nothing"),
    ],
)
def test_integers_that_neither_data_nor_declaration_covers_are_named(
    dtype: str, most: float, declared: tuple[float, float] | None, stress: tuple[str, ...], words: str
) -> None:
    held = InputValuesRow("ids", dtype, 0, most, None, False, declared, ())
    row = ExercisedRow("onnx", "onnxruntime", 40, 57, (), (held,), stress, ())
    assert Exercise(("onnx",), row).not_asked == words
