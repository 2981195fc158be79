"""Drift statistics: merging, and the cases at the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from transload.models.signature import Array
from transload.pipeline.drift.numbers.numeric import BOUND_DB, OutputDrift, combine, compare

ROWS = 12
WIDE = arrays(np.float32, (ROWS, 3), elements=st.floats(width=32))
CUTS = st.lists(st.integers(0, ROWS), max_size=4).map(sorted)


def in_parts(x: Array, y: Array, cuts: list[int]) -> OutputDrift:
    drift = OutputDrift()
    for start, stop in zip([0, *cuts], [*cuts, len(x)], strict=True):
        drift = drift.merge(compare(x[start:stop], y[start:stop]))
    return drift


@given(x=WIDE, y=WIDE, cuts=CUTS)
def test_any_split_of_the_data_gives_one_answer(x: Array, y: Array, cuts: list[int]) -> None:
    parts, whole = in_parts(x, y, cuts), compare(x, y)
    for name in ("elements", "finite", "max_abs", "non_finite", "mismatches", "varies"):
        assert getattr(parts, name) == getattr(whole, name), name
    for name in ("noise", "signal", "power"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-12, abs=0)
    room = 1e-12 * math.sqrt(whole.signal) * math.sqrt(whole.power)
    assert abs(parts.product - whole.product) <= room


@given(x=arrays(np.int64, (ROWS, 2)), y=arrays(np.int64, (ROWS, 2)), cuts=CUTS)
def test_integers_merge_to_the_last_bit(x: Array, y: Array, cuts: list[int]) -> None:
    parts, whole = in_parts(x, y, cuts), compare(x, y)
    assert (parts.mismatches, parts.max_abs, parts.varies) == (whole.mismatches, whole.max_abs, whole.varies)
    assert parts.exact
    assert whole.mismatches == int((x != y).sum())
    assert whole.max_abs == max(abs(int(a) - int(b)) for a, b in zip(x.flat, y.flat, strict=True)) * 1.0


@given(x=WIDE)
def test_an_array_agrees_with_itself_whatever_it_holds(x: Array) -> None:
    drift = compare(x, x.copy())
    assert (drift.max_abs, drift.non_finite, drift.sqnr_db, drift.rms) == (0.0, 0, None, 0.0)
    assert drift.cosine is None or drift.cosine == pytest.approx(1.0)


def test_known_numbers() -> None:
    drift = compare(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 0.5]]))
    assert drift.max_abs == 0.5
    assert drift.rms == 0.25
    assert drift.sqnr_db == pytest.approx(10 * math.log10(25.25 / 0.25))
    assert drift.cosine == pytest.approx(25 / math.sqrt(25 * 25.25))


def test_float16_is_subtracted_in_float64() -> None:
    drift = compare(np.array([60000, -60000], np.float16), np.array([-60000, 60000], np.float16))
    assert drift.max_abs == 120000.0  # float16 itself overflows there
    assert drift.non_finite == 0


@pytest.mark.parametrize(
    ("got", "want", "count"),
    [
        ([np.nan], [np.nan], 0),
        ([np.inf], [np.inf], 0),
        ([-np.inf], [-np.inf], 0),
        ([-np.inf], [np.inf], 1),
        ([np.nan], [np.inf], 1),
        ([np.inf], [np.nan], 1),
        ([1.0], [np.nan], 1),
        ([np.inf], [1.0], 1),
    ],
)
def test_non_finite_elements_agree_in_kind_and_sign_or_count(got: list[float], want: list[float], count: int) -> None:
    drift = compare(np.array([*got, 2.0], np.float32), np.array([*want, 2.0], np.float32))
    assert (drift.non_finite, drift.finite, drift.max_abs) == (count, 1, 0.0)
    assert drift.undefined == (count if not np.isfinite(want[0]) else 0)


def test_noise_on_a_zero_reference_is_as_bad_as_can_be_and_a_zero_candidate_is_0_db() -> None:
    zeros, ones = np.zeros((2, 2)), np.ones((2, 2))
    assert compare(ones, zeros).sqnr_db == -BOUND_DB
    assert compare(ones, zeros).cosine == 0.0
    assert compare(zeros, ones).sqnr_db == 0.0
    assert compare(zeros, zeros).cosine == 1.0
    assert compare(zeros, zeros).sqnr_db is None


@pytest.mark.parametrize("tiny", [1e-200, 1e-320])
def test_a_difference_too_small_to_square_is_still_a_difference(tiny: float) -> None:
    drift = compare(np.array([1.0, tiny]), np.array([1.0, 0.0]))
    assert drift.max_abs == tiny
    assert drift.sqnr_db == BOUND_DB


def test_numbers_too_large_to_square_stay_numbers_that_json_knows() -> None:
    drift = combine({"y": compare(np.array([1e308, -1e308]), np.array([-1e308, 1e308]))})
    assert drift.sqnr_db == -BOUND_DB
    assert math.isfinite(drift.max_abs)
    assert math.isfinite(drift.rms)
    assert drift.cosine is None or math.isfinite(drift.cosine)


def test_integers_beyond_float64_are_told_apart() -> None:
    drift = compare(np.array([2**53 + 1, 5]), np.array([2**53, 5]))
    assert (drift.mismatches, drift.max_abs) == (1, 1.0)
    extremes = compare(np.array([np.iinfo(np.int64).max]), np.array([np.iinfo(np.int64).min]))
    assert extremes.max_abs == float(2**64 - 1)
    mixed = compare(np.array([2**63 + 1], np.uint64), np.array([1], np.int64))
    assert (mixed.mismatches, mixed.max_abs) == (1, float(2**63))


def test_bools_scalars_complex_and_empty_outputs_compare() -> None:
    assert compare(np.array([True, False]), np.array([True, True])).mismatches == 1
    assert compare(np.array(3.0), np.array(1.0)).max_abs == 2.0
    assert compare(np.array(3), np.array(4)).mismatches == 1
    assert compare(np.array([1 + 2j]), np.array([1 + 4j])).max_abs == 2.0
    empty = compare(np.zeros((0, 3)), np.zeros((0, 3)))
    assert (empty.elements, empty.varies, empty.sqnr_db) == (0, False, None)


def test_unlike_shapes_are_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"\(2, 1\) and \(2, 3\)"):
        compare(np.ones((2, 1)), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("want", "varies"),
    [
        (np.ones((4, 3)), False),
        (np.array([[1.0, 2.0, 3.0]] * 4), False),  # values differ within a sample, not between samples
        (np.array([[1.0], [1.0 + 1e-9]]), False),  # rounding
        (np.array([[1.0], [1.001]]), True),
        (np.full((3, 2), np.nan), False),
        (np.array([[np.inf], [1.0]]), True),
        (np.array([[1e30], [-1e30]]), True),
        (np.array([7, 7, 7]), False),
        (np.array([7, 7, 8]), True),
        (np.array([False, True]), True),
        (np.array(3.0), False),
        (np.ones((1, 5)), False),  # one sample cannot vary
    ],
)
def test_a_reference_varies_when_samples_differ(want: Array, varies: bool) -> None:
    assert compare(want, want).varies is varies


def test_samples_of_unlike_shapes_vary() -> None:
    drift = compare(np.ones((2, 3)), np.ones((2, 3))).merge(compare(np.ones((2, 4)), np.ones((2, 4))))
    assert drift.varies
    assert drift.elements == 14


def test_the_worst_output_counts() -> None:
    good, bad = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])
    drift = combine({"a": compare(good, good), "b": compare(bad, good), "c": compare(good[:1] * 0, good[:1] * 0)})
    assert drift.worst == "b"
    assert drift.cosine == pytest.approx(7 / math.sqrt(5 * 10))
    assert drift.max_abs == 1.0
    assert drift.sqnr_db == pytest.approx(10 * math.log10(5))
    assert drift.varies
    assert drift.constant == ("c",)


def test_signal_to_noise_is_of_the_floats_where_there_are_any() -> None:
    exact = compare(np.array([1, 9]), np.array([1, 2]))
    close = compare(np.array([1.0, 2.001]), np.array([1.0, 2.0]))
    both = combine({"class": exact, "score": close})
    assert both.worst == "score"
    assert (both.mismatches, both.exact_elements) == (1, 2)
    assert combine({"class": exact}).worst == "class"


def beside_large(noise: float, large: float = 1e9, rows: int = 40) -> OutputDrift:
    """Ten columns that are normal, off by `noise`, and ten that are `large` and right to the bit."""
    rng = np.random.default_rng(0)
    small = rng.normal(size=(rows, 10))
    want = np.concatenate([small, np.full((rows, 10), -large)], 1)
    got = np.concatenate([small + noise * rng.normal(size=small.shape), want[:, 10:]], 1)
    return compare(got, want)


@pytest.mark.parametrize(("noise", "least", "most"), [(1.0, -25, -10), (0.1, -5, 5), (1e-3, 30, 50), (1e-6, 0, 0)])
def test_values_that_large_ones_hide_are_judged_by_themselves(noise: float, least: float, most: float) -> None:
    drift = beside_large(noise)
    assert drift.sqnr_db is not None
    assert drift.sqnr_db > 170
    assert drift.small_db is None or least < drift.small_db < most
    assert (drift.small_db is None) == (noise == 1e-6)  # no more than rounding of the values that differ


def test_a_mask_among_the_answers_does_not_make_them_constant() -> None:
    assert compare(*2 * [np.array([[1.0, -1e9], [2.0, -1e9]], np.float32)]).varies
    assert not compare(*2 * [np.array([[1.0, -1e9], [1.0 + 1e-7, -1e9]], np.float32)]).varies
    assert not compare(*2 * [np.array([[-1e9, -1e9], [-1e9, -1e9]], np.float32)]).varies


def test_scores_beside_boxes_in_pixels_are_judged_by_themselves() -> None:
    rng = np.random.default_rng(1)
    boxes, scores = rng.uniform(0, 640, (50, 4)), rng.uniform(0, 0.1, (50, 20))
    right = boxes + rng.normal(size=boxes.shape) * 1e-4  # rounding, as float32 has it
    want = np.concatenate([boxes, scores], 1)
    lost = compare(np.concatenate([right, rng.permutation(scores)], 1), want)
    assert lost.sqnr_db is not None and lost.sqnr_db > 60  # noqa: PT018
    assert lost.small_db is not None and lost.small_db < 10  # noqa: PT018
    kept = compare(np.concatenate([right, scores + rng.normal(size=scores.shape) * 1e-7], 1), want)
    assert kept.small_db is None


@pytest.mark.parametrize("made", ["normal", "relu", "softmax", "sparse", "cancelled"])
def test_rounding_and_an_approximation_are_no_lost_small_values(made: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(64, 200))
    for level in (1e-7, 1e-5, 5e-4):  # up to 66 dB
        noisy = x + level * rng.normal(size=x.shape)
        want, got = {
            "normal": (x, noisy),
            "relu": (np.maximum(x, 0), np.maximum(noisy, 0)),
            "softmax": tuple(np.exp(20 * each) / np.exp(20 * each).sum(1, keepdims=True) for each in (x, noisy)),
            "sparse": (np.maximum(x - 3, 0), np.maximum(noisy - 3, 0)),
            "cancelled": (x * (np.arange(200) < 9), np.where(np.arange(200) < 9, noisy, level * 1e-2 * x)),
        }[made]
        drift = compare(np.asarray(got), np.asarray(want))
        assert drift.small_db is None or drift.small_db > 20, (made, level, drift.small_db)


@given(x=WIDE, y=WIDE, cuts=CUTS)
def test_small_values_are_the_same_in_any_split(x: Array, y: Array, cuts: list[int]) -> None:
    parts, whole = in_parts(x, y, cuts), compare(x, y)
    assert parts.reach == whole.reach
    assert parts.by_scale is not None
    assert parts.by_scale == pytest.approx(whole.by_scale, rel=1e-12, abs=0)


@pytest.mark.parametrize("shape", [(1,), (700,), (700, 3), (103, 5, 2), (5, 600), (3, 257)])
def test_the_span_of_short_samples_is_that_of_each_element(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    values.flat[:: max(2, values.size // 3)] = np.nan
    values[0], values[-1] = -9, 9  # the last samples fill no row of several
    span = compare(values, values).span
    assert span is not None
    np.testing.assert_array_equal(span.low, np.fmin.reduce(values, axis=0))
    np.testing.assert_array_equal(span.high, np.fmax.reduce(values, axis=0))
