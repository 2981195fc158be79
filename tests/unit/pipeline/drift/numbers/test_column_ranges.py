"""An input whose columns differ too much in range for one int8 scale is named, with the mend."""

from __future__ import annotations

import numpy as np
import pytest

from transload.models.dataset import Dataset
from transload.models.formats import Precision
from transload.models.signature import Array, Axis, TensorSpec
from transload.pipeline.drift.numbers.column_ranges import describe_uneven_columns

UNIT = np.random.default_rng(2).uniform(-1, 1, (200, 5)).astype(np.float32)
UNIT[0], UNIT[1] = -1, 1  # so that ranges are exact


def described(
    values: Array, precision: Precision = Precision.INT8, agreement_db: float | None = 14.0, width: Axis = 5
) -> str:
    middle = tuple(int(size) for size in values.shape[1:-1])
    spec = TensorSpec("features", values.dtype.name, ("batch", *middle, width))
    return describe_uneven_columns(precision, agreement_db, Dataset({"features": values}), (spec,))


def test_the_ratio_and_the_columns_that_lose_most_are_named() -> None:
    values = UNIT * np.array([1200, 1, 600, 30, 2], np.float32)
    assert described(values) == (
        "input `features`: column ranges differ by 1,200 x, and one int8 scale leaves fewer than 8 steps for "
        "columns 1, 4, 3: scale your inputs"
    )
    assert "columns 1, 4, 3" in described(values.reshape(40, 5, 5))


def test_one_column_is_named_alone_and_many_are_counted() -> None:
    assert "for column 2: scale" in described(UNIT * np.array([100, 100, 1, 50, 20], np.float32))
    assert "for columns 1, 2, 3 and 1 more: scale" in described(UNIT * np.array([100, 1, 1, 1, 1], np.float32))


def test_a_column_of_eight_steps_is_served() -> None:
    assert described(UNIT * np.array([31, 1, 1, 1, 1], np.float32)) == ""
    assert described(UNIT * np.array([33, 1, 1, 1, 1], np.float32)) != ""


@pytest.mark.parametrize(
    ("precision", "agreement_db"),
    [(Precision.FP32, 14.0), (Precision.FP16, 14.0), (Precision.INT8, 40.0), (Precision.INT8, None)],
)
def test_nothing_is_said_of_a_copy_that_lost_nothing_to_scales(
    precision: Precision, agreement_db: float | None
) -> None:
    assert described(UNIT * np.array([1200, 1, 1, 1, 1], np.float32), precision, agreement_db) == ""


def test_what_has_no_columns_or_does_not_vary_is_passed_over() -> None:
    values = UNIT * np.array([1200, 1, 1, 1, 1], np.float32)
    assert described(values, width="time") == ""
    assert described(values.astype(np.int64)) == ""
    assert described(UNIT * np.array([1, 0, 1, 1, 1], np.float32)) == ""
    assert described(np.zeros_like(UNIT)) == ""
    assert described(values.reshape(8, 5, 5, 5)) == ""


def test_samples_that_are_not_finite_are_passed_over() -> None:
    values = UNIT * np.array([30, 1, 1, 1, 1], np.float32)
    values[5, 0] = np.inf
    assert described(values) == ""
