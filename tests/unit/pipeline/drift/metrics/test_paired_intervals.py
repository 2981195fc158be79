"""The interval of a mean paired difference covers what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from transload.models.signature import Array
from transload.pipeline.drift.metrics.paired_intervals import own_interval, paired_interval, paired_proportions

BITS = arrays(np.float64, 40, elements=st.sampled_from([0.0, 1.0]))


def test_no_discordant_sample_is_not_certainty() -> None:
    low, high = paired_proportions(0, 0, 540)
    half = 1.959963984540054 * math.sqrt(2) / 542  # by hand: p = q = 1/542
    assert (low, high) == pytest.approx((-half, half))


def test_bonett_and_price_by_hand() -> None:
    low, high = paired_proportions(won=3, lost=9, samples=98)
    half = 1.959963984540054 * math.sqrt((0.04 + 0.10 - 0.06**2) / 100)
    assert (low, high) == pytest.approx((-0.06 - half, -0.06 + half))


@given(x=BITS, y=BITS)
def test_exchanging_the_sides_mirrors_the_interval(x: Array, y: Array) -> None:
    low, high = paired_interval(x, y)
    assert paired_interval(y, x) == pytest.approx((-high, -low))
    assert -1 <= low < high <= 1
    assert low <= float(np.mean(y - x)) <= high


@given(x=BITS, y=BITS, order=st.permutations(range(40)))
def test_the_order_of_samples_does_not_matter(x: Array, y: Array, order: list[int]) -> None:
    assert paired_interval(x[order], y[order]) == paired_interval(x, y)


def coverage(draws: int, samples: int, truth: float, make: object) -> float:
    rng = np.random.default_rng(20)
    hits = 0
    for _ in range(draws):
        reference, candidate = make(rng, samples)  # type: ignore[operator]
        low, high = paired_interval(reference, candidate)
        hits += low <= truth <= high
    return hits / draws


@pytest.mark.parametrize(("won", "lost"), [(0.005, 0.02), (0.05, 0.05), (0.002, 0.002)])
def test_the_interval_of_proportions_covers_95_percent_or_more(won: float, lost: float) -> None:
    def draw(rng: np.random.Generator, samples: int) -> tuple[Array, Array]:
        kind = rng.random(samples)
        return (kind < lost) * 1.0, ((kind >= lost) & (kind < lost + won)) * 1.0

    assert coverage(2000, 360, won - lost, draw) >= 0.94
    # and is no wider than it need be where discordance is not rare
    assert won < 0.05 or coverage(2000, 360, won - lost, draw) <= 0.965


def test_the_bootstrap_covers_near_95_percent() -> None:
    def draw(rng: np.random.Generator, samples: int) -> tuple[Array, Array]:
        reference = rng.normal(size=samples)
        return reference, reference + rng.gamma(2.0, 0.5, size=samples) - 1.2

    assert 0.92 <= coverage(200, 60, 1.0 - 1.2, draw) <= 0.98


def test_the_bootstrap_is_seeded_and_scales_with_the_scores() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 50))
    first = paired_interval(x, y, seed=1)
    assert paired_interval(x, y, seed=1) == first
    assert paired_interval(x, y, seed=2) != first
    assert paired_interval(x * 1024, y * 1024, seed=1) == pytest.approx((first[0] * 1024, first[1] * 1024))


def test_many_samples_get_the_normal_interval() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 5000))
    gaps = y - x
    half = 1.959963984540054 * gaps.std(ddof=1) / math.sqrt(5000)
    assert paired_interval(x, y) == pytest.approx((gaps.mean() - half, gaps.mean() + half))


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_differences_without_spread_still_leave_room_for_the_unseen(shift: float) -> None:
    x = np.linspace(0.1, 0.9, 100)
    low, high = paired_interval(x, x + shift)
    assert low < shift < high
    assert (high - low) / 2 == pytest.approx((0.9 + shift) * (1 - 0.05**0.01))


@pytest.mark.parametrize("samples", [1, 2])
def test_one_or_two_samples_give_a_wide_interval(samples: int) -> None:
    low, high = paired_interval(np.full(samples, 0.5), np.full(samples, 0.6))
    assert high - low > 0.9


def test_one_different_sample_among_equal_ones_has_an_interval() -> None:
    x = np.full(30, 0.5)
    y = x.copy()
    y[3] = 0.2
    low, high = paired_interval(x, y)
    assert low < -0.01 < high <= 0.0 + 1e-12


@given(bits=BITS)
def test_the_interval_of_a_share_is_wilsons(bits: Array) -> None:
    expected = stats.binomtest(int(bits.sum()), len(bits)).proportion_ci(method="wilson")
    assert own_interval(bits) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_interval_of_a_mean_is_normal() -> None:
    scores = np.random.default_rng(1).gamma(2, size=400)
    half = 1.959963984540054 * scores.std(ddof=1) / 20
    assert own_interval(scores) == pytest.approx((scores.mean() - half, scores.mean() + half))
