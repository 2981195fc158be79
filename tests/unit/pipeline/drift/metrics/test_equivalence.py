"""The verdict on a metric's loss: by direction and unit, with the samples that would decide it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from transload.pipeline.drift.metrics.equivalence import (
    detectable_loss,
    judge_loss,
    loss_interval,
    mcnemar,
    samples_needed,
)
from transload.pipeline.drift.metrics.paired_intervals import paired_interval


def row(low: float, high: float, *, higher: bool = True, unit: str = "share", **own: Any) -> dict[str, Any]:
    sides = {"name": "m", "reference": 0.9, "candidate": 0.9 + (low + high) / 2, "delta": (low + high) / 2}
    return {**sides, "ci95": [low, high], "higher_is_better": higher, "unit": unit, **own}


@pytest.mark.parametrize(
    ("low", "high", "higher", "verdict"),
    [
        (-0.01, 0.2, True, "pass"),  # an interval that ends on the limit keeps it
        (-0.02, -0.011, True, "fail"),
        (-0.02, 0.0, True, "inconclusive"),
        (-0.2, 0.01, False, "pass"),
        (0.011, 0.02, False, "fail"),
        (0.0, 0.02, False, "inconclusive"),
        (0.01, 0.02, False, "inconclusive"),
    ],
)
def test_what_is_lost_depends_on_the_direction(low: float, high: float, higher: bool, verdict: str) -> None:
    assert judge_loss(row(low, high, higher=higher), 0.01)[0] == verdict


def test_exchanging_direction_and_sign_changes_nothing() -> None:
    up, down = row(-0.03, 0.01), row(-0.01, 0.03, higher=False)
    assert loss_interval(up) == loss_interval(down)


SENTENCES = [
    (
        row(-0.04, -0.02), 0.01,
        "m changed by -3.00 pp [-4.00, -2.00], beyond the allowed loss of 1.00 pp",
    ),
    (
        row(0.02, 0.04, higher=False, unit="mm"), 0.01,
        "m changed by +0.03 mm [+0.02, +0.04], beyond the allowed loss of 0.01 mm",
    ),
    (
        row(-0.02, 0.0, unit="", samples_needed=4100), 0.015,
        "m changed by -0.01 [-0.02, +0], which spans the allowed loss of 0.015: about 4,100 samples would decide it",
    ),
    (
        row(-0.02, 0.0), 0.01,
        "m changed by -1.00 pp [-2.00, +0.00], which spans the allowed loss of 1.00 pp: it lies so near to the limit "
        "that more samples will not decide it",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "allowed", "words"), SENTENCES)
def test_the_sentence_has_the_metrics_own_unit(metric: dict[str, Any], allowed: float, words: str) -> None:
    assert judge_loss(metric, allowed)[1] == words


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (0, 1), (3, 9), (9, 3), (40, 41), (0, 30)])
def test_mcnemar_is_the_exact_binomial_test(won: int, lost: int) -> None:
    expected = stats.binomtest(won, won + lost).pvalue if won + lost else 1.0
    assert mcnemar(won, lost) == pytest.approx(expected)


def test_no_number_is_needed_where_the_interval_has_decided() -> None:
    assert samples_needed(100, row(-0.01, 0.0), 0.02) is None
    assert samples_needed(100, row(-0.05, -0.03), 0.02) is None
    assert samples_needed(100, row(-0.05, 0.03), None) is None
    assert samples_needed(100, row(-0.02, 0.0), 0.01) is None  # the loss lies on the limit


@pytest.mark.parametrize(("loss", "allowed"), [(0.05, 0.0), (0.02, 0.06)])
def test_the_number_of_samples_decides_in_about_80_of_100_cases(loss: float, allowed: float) -> None:
    rng = np.random.default_rng(9)

    def draw(samples: int) -> tuple[float, float]:
        gaps = rng.normal(-loss, 0.4, size=samples)
        return paired_interval(np.zeros(samples), gaps)

    seen = row(-loss - 1.96 * 0.04, -loss + 1.96 * 0.04)  # of 100 samples with a spread of 0.4
    needed = samples_needed(100, seen, allowed)
    assert needed is not None
    decided = 0
    for _ in range(100):
        low, high = draw(needed) if needed >= 4096 else _normal(rng.normal(-loss, 0.4, size=needed))
        decided += judge_loss(row(low, high), allowed)[0] != "inconclusive"
    assert 70 <= decided <= 92


def _normal(gaps: Any) -> tuple[float, float]:
    half = 1.96 * gaps.std(ddof=1) / np.sqrt(len(gaps))
    return float(gaps.mean() - half), float(gaps.mean() + half)


def test_where_no_sample_differs_the_number_falls_with_the_limit() -> None:
    half = 2.77 / 102
    needed = samples_needed(100, row(-half, half, reference=0.9, candidate=0.9), 0.01, alike=True)
    assert needed == 280  # 100 half / 0.01, rounded up to two digits


@pytest.mark.parametrize(
    ("low", "high", "delta", "allowed", "needed"),
    [
        (0.01, 0.03, 0.02, 0.01, 210),  # its best end lies on the limit: it is open
        (-0.01, 0.01, 0.0, 0.01, None),  # its worst end lies on the limit, and keeps it
        (0.0, 2e-12, 0.0, 1e-12, None),  # the loss lies on the limit, but for rounding
    ],
)
def test_samples_are_asked_for_where_the_interval_spans_the_limit(
    low: float, high: float, delta: float, allowed: float, needed: int | None
) -> None:
    assert samples_needed(100, row(low, high, higher=False, delta=delta), allowed) == needed


def test_beyond_a_billion_samples_nobody_gathers_them() -> None:
    metric = row(-1000.0, 1000.0, higher=False, delta=0.0)
    assert samples_needed(1000, metric, 0.001, alike=True) == 1_000_000_000
    assert samples_needed(1001, metric, 0.001, alike=True) is None


def test_all_of_a_share_is_the_largest_loss_that_can_be_shown() -> None:
    two = 2 - 0.8416212335729143  # with the power's quantile: 2
    assert detectable_loss(4, row(0.0, 0.0), None, z=two) == 1.0
    assert detectable_loss(3, row(0.0, 0.0), None, z=two) is None
    assert detectable_loss(3, row(0.0, 0.0, unit="mm"), None, z=two) == pytest.approx(1.2, rel=0.2)
