"""What a sentence says of 8-bit outputs that differ: how far, in steps of their quantisation, and what helps."""

from __future__ import annotations

import numpy as np
import pytest

from transload.pipeline.drift.probe_tally import ProbeTally

_HELP = "convert the float model that was quantised, or a file whose outputs are floats"


def explained(change: np.ndarray, dtype: str, *, beside: bool = False) -> str | None:
    """Explain a copy whose output differs from the reference's by `change`."""
    reference = np.random.default_rng(4).integers(3, 120, (10, 10)).astype(dtype)
    tally = ProbeTally(batched=True)
    other = np.arange(10, dtype=np.int64)
    copy = {"y": (reference + change).astype(dtype), "ids": other + beside}
    tally.add(copy, {"y": reference, "ids": other}, 10)
    return tally.explain()


def scattered(*steps: int) -> np.ndarray:
    change = np.zeros((10, 10), int)
    for at, step in enumerate(steps):
        change[3 * at + 1, 7 - 2 * at] = step
    return change


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_difference_of_one_step_is_told_with_its_cause(dtype: str) -> None:
    said = f"by one step of 8 bits, as runtimes that round after each operator do; {_HELP}"
    assert explained(scattered(1, -1), dtype) == said


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_more_steps_are_told_without_it(dtype: str) -> None:
    assert explained(scattered(1, -3), dtype) == f"by 3 steps of 8 bits at most; {_HELP}"


def test_other_integers_and_right_ones_are_none_of_it() -> None:
    assert "8 bits" not in (explained(scattered(1, -1), "int64") or "")
    assert "8 bits" not in (explained(scattered(1, -1), "int8", beside=True) or "")
    assert explained(scattered(), "int8") is None
