"""A wrong column is told beside larger ones, and a right one is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transload.models.formats import Precision
from transload.models.signature import Array, Signature, parse_input
from transload.pipeline.drift.noise_floor import Cause, derive_limits, measure_noise
from transload.pipeline.drift.numbers.column_drift import column_axes
from transload.pipeline.drift.numbers.numeric import OutputDrift, combine, compare
from transload.pipeline.drift.rules import FAIL, PASS, Judgement, Rule, judge

ROUNDING = 6e-8


def signature(output: str) -> Signature:
    return Signature((parse_input("x=float32[batch,3]"),), (parse_input(output),))


def rounded(truth: Array, seed: int, noise: float = ROUNDING) -> Array:
    """What a right copy answers: each number has a relative error of rounding."""
    rng = np.random.default_rng(seed)
    return (truth * (1 + noise * rng.normal(size=truth.shape))).astype(np.float32)


def judged(copy: Array, truth: Array, output: str, precision: Precision = Precision.FP32) -> Judgement:
    axes = column_axes(signature(output))["y"]
    reference = rounded(truth, 1)
    noise = measure_noise({"y": reference}, {"y": truth}, {"y": axes})
    rule = replace(Rule.of(precision), limits=derive_limits({Cause.FLOAT64: noise}))
    return judge(combine({"y": compare(copy, reference, axes=axes)}), rule)


@pytest.mark.parametrize(
    ("output", "shape", "column", "name"),
    [
        ("y=float32[batch,2]", (5, 2), np.s_[:, 1], "y[:, 1]"),
        ("y=float32[batch,16]", (5, 16), np.s_[:, 7], "y[:, 7]"),
        ("y=float32[batch,n,6]", (5, 9, 6), np.s_[..., 4], "y[..., 4]"),
        ("y=float32[batch,3,h,w]", (5, 3, 8, 8), np.s_[:, 2], "y[:, 2]"),
    ],
)
def test_a_wrong_small_column_is_named(output: str, shape: tuple[int, ...], column: Any, name: str) -> None:
    rng = np.random.default_rng(0)
    truth = 1e6 * (2 + rng.random(shape))
    truth[column] = rng.random(truth[column].shape)
    wrong = truth.copy()
    wrong[column] = 1 - wrong[column]
    assert judged(rounded(truth, 2), truth, output).verdict == PASS
    judgement = judged(rounded(wrong, 2), truth, output)
    assert (judgement.verdict, (judgement.reason or "").split(" agrees")[0]) == (FAIL, f"output {name}")
    assert judgement.sqnr_db is not None
    assert judgement.sqnr_db < 20


@pytest.mark.parametrize("precision", [Precision.FP16, Precision.INT8])
def test_a_reduced_precision_may_round_a_small_column_but_not_lose_it(precision: Precision) -> None:
    rng = np.random.default_rng(0)
    truth = np.stack([1e3 * (2 + rng.random(40)), rng.random(40)], axis=1)
    right, lost = rounded(truth, 2, 1e-3), rounded(truth, 2, 1e-3)
    lost[:, 1] = 2 - lost[:, 1]
    assert judged(right, truth, "y=float32[batch,2]", precision).verdict == PASS
    assert judged(lost, truth, "y=float32[batch,2]", precision).verdict == FAIL


@given(st.integers(0, 2**31), st.integers(2, 40), st.integers(4, 30), st.floats(0, 6))
def test_right_copies_with_columns_of_any_size_pass(seed: int, columns: int, samples: int, decades: float) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(samples, columns)) * 10 ** (decades * rng.random(columns))
    judgement = judged(rounded(truth, seed + 1, 5 * ROUNDING), truth, f"y=float32[batch,{columns}]")
    assert judgement.verdict == PASS, judgement.reason


def test_a_column_that_rounding_of_the_others_makes_has_no_limit() -> None:
    rng = np.random.default_rng(0)
    truth = np.stack([1 + rng.random(20), np.zeros(20)], axis=1)
    truth[:, 1] = 1e-8 * rng.normal(size=20)
    noise = np.array([0, 1e-7])
    reference, copy = (truth + noise * rng.normal(size=truth.shape) for _ in range(2))
    axes = column_axes(signature("y=float32[batch,2]"))
    limits = derive_limits({Cause.FLOAT64: measure_noise({"y": reference}, {"y": truth}, axes)})
    drift = combine({"y": compare(copy, reference, axes=axes["y"])})
    assert replace(Rule.of("fp32"), limits=limits).broken_column(drift) is None


@given(st.integers(0, 2**31))
def test_a_sigmoid_that_saturates_is_off_by_less_than_the_rounding_of_one(seed: int) -> None:
    """ONNX Runtime answers torchcrepe's pitches of 1e-7 with an absolute error of 1e-7."""
    rng = np.random.default_rng(seed)
    truth = (1 / (1 + np.exp(rng.normal(loc=[0, 0, 12, 14, 15, 16], scale=0.5, size=(5, 6))))).astype(np.float32)
    copy = (truth + rng.uniform(-1e-7, 1e-7, truth.shape)).astype(np.float32)
    assert judged(copy, truth, "y=float32[batch,6]").verdict == PASS
    wrong = truth.copy()
    wrong[:, 2] *= 2  # 6e-6 is beyond what rounding explains
    assert judged(wrong, truth, "y=float32[batch,6]").verdict == FAIL


def test_columns_are_axes_of_a_fixed_size_that_are_not_the_batch() -> None:
    for output, positions in {
        "y=float32[batch,2]": [-1], "y=float32[batch,n]": [], "y=float32[batch]": [], "y=int64[batch,2]": [],
        "y=float32[batch,3,8,8]": [-1, -3], "y=float32[batch,n,4]": [-1], "y=float32[batch,3,n]": [-2],
        "y=float32[batch,50000]": [], "y=float32[4,n,2]": [-1],
    }.items():  # fmt: skip
        assert [axis.position for axis in column_axes(signature(output)).get("y", ())] == positions, output


@given(st.integers(0, 2**31), st.integers(1, 9))
def test_sums_of_parts_are_those_of_all(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    copy, truth = rng.normal(size=(2, 10, 3, 4))
    copy[rng.integers(10), 0] = np.nan
    axes = column_axes(signature("y=float32[batch,3,4]"))["y"]
    parts = OutputDrift()
    for block in (slice(cut), slice(cut, None)):
        parts = parts.merge(compare(copy[block], truth[block], axes=axes))
    for merged, at_once in zip(parts.columns, compare(copy, truth, axes=axes).columns, strict=True):
        np.testing.assert_allclose(merged.noise, at_once.noise, rtol=1e-12)
        assert merged.values == at_once.values
