"""Verdicts on changes at, just within and just beyond their limits."""

from __future__ import annotations

import math

import pytest

from transload.pipeline.result.compare.change_records import Change
from transload.pipeline.result.compare.judge import by_sign, difference, judge_difference, judge_ratio, judge_times
from transload.pipeline.result.ratio import Comparison, Ratio

SAME, WORSE, BETTER, OPEN = Change.SAME, Change.WORSE, Change.BETTER, Change.INCONCLUSIVE


@pytest.mark.parametrize(
    ("change", "low", "high", "verdict"),
    [
        (0.0, -1.0, 1.0, SAME),  # both ends lie on the limit
        (0.0, -1.01, 1.0, OPEN),
        (0.0, -1.0, 1.01, OPEN),
        (1.0, 0.5, 1.5, OPEN),  # the difference lies on the limit
        (-1.0, -1.5, -0.5, OPEN),
        (1.01, 0.5, 1.5, WORSE),
        (-1.01, -1.5, -0.5, BETTER),
        (1.5, 0.0, 3.0, OPEN),  # the interval ends on 0
        (-1.5, -3.0, 0.0, OPEN),
        (1.5, 0.01, 3.0, WORSE),
        (-1.5, -3.0, -0.01, BETTER),
        (0.5, 0.1, 5.0, OPEN),  # within the limit, though 0 is excluded
        (1.5, -0.1, 5.0, OPEN),  # beyond the limit, though 0 is not
    ],
)
def test_a_difference_is_judged_by_its_interval_and_its_limit(
    change: float, low: float, high: float, verdict: Change
) -> None:
    assert judge_difference(change, (low, high), 1.0, higher_is_better=False) is verdict
    swapped = {WORSE: BETTER, BETTER: WORSE}.get(verdict, verdict)
    assert judge_difference(change, (low, high), 1.0, higher_is_better=True) is swapped


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (1.05, SAME),
        (1 / 1.05, SAME),
        (1.05001, WORSE),
        (1 / 1.05001, BETTER),
        (0.0, BETTER),  # a size of nothing has no logarithm
        (1.0, SAME),
    ],
)
def test_an_exact_ratio_has_one_limit_in_both_directions(ratio: float, verdict: Change) -> None:
    assert judge_ratio(ratio, 0.05) is verdict


def test_a_ratio_on_its_limit_is_kept_whatever_rounds_it() -> None:
    assert all(judge_ratio(1 + limit / 1000, limit / 1000) is SAME for limit in range(1000))
    assert judge_ratio(1.05 * (1 + 1e-11), 0.05) is WORSE


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [(None, OPEN), ((1.1, 1.3), WORSE), ((0.9, 1.3), OPEN), ((1.0, 1.3), OPEN)],
)
def test_times_are_judged_by_the_interval_that_allows_several_looks(
    interval: tuple[float, float] | None, verdict: Change
) -> None:
    ratio = Ratio(1.2, (1.19, 1.21), Comparison.SLOWER, verdict_interval=interval)
    assert judge_times(ratio, 0.05) is verdict


def test_times_within_their_limit_are_the_same() -> None:
    ratio = Ratio(1.0, None, Comparison.SAME, verdict_interval=(1 / 1.04, 1.04))
    assert judge_times(ratio, 0.05) is SAME
    assert judge_times(ratio, 0.03) is OPEN


@pytest.mark.parametrize(("cost", "verdict"), [(0.0, SAME), (1e-9, WORSE), (-1e-9, BETTER)])
def test_more_cost_is_worse(cost: float, verdict: Change) -> None:
    assert by_sign(cost) is verdict


def test_the_interval_of_a_difference_adds_the_ends_that_face_each_other() -> None:
    change, (low, high) = difference((1.0, (0.7, 1.4)), (3.0, (2.6, 3.3)))
    assert (change, low, high) == pytest.approx((2.0, 2.0 - math.hypot(0.4, 0.4), 2.0 + math.hypot(0.3, 0.3)))
    _, (low, high) = difference((1.0, (0.0, 1.0)), (3.0, (3.0, 5.0)))
    assert (low, high) == pytest.approx((2.0, 2.0 + math.hypot(2.0, 1.0)))
