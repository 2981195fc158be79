"""When requests are to be sent."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from transload.pipeline.measure.load.arrivals import constant_arrivals, poisson_arrivals

RATES = st.floats(0.5, 2000)
SECONDS = st.floats(0.1, 20)


@settings(max_examples=50, deadline=None)
@given(RATES, SECONDS)
def test_constant_arrivals_are_evenly_spaced_from_the_start(rate: float, seconds: float) -> None:
    times = constant_arrivals(rate, seconds)
    assert times[0] == 0
    assert np.allclose(np.diff(times), 1 / rate, rtol=1e-6, atol=1e-9)
    assert times[-1] < seconds or len(times) == 1
    assert abs(len(times) - rate * seconds) <= 1


@settings(max_examples=50, deadline=None)
@given(RATES, SECONDS, st.integers(0, 2**32))
def test_poisson_arrivals_are_sorted_inside_and_as_many_as_the_rate_says(
    rate: float, seconds: float, seed: int
) -> None:
    times = poisson_arrivals(rate, seconds, np.random.default_rng(seed))
    assert len(times) >= 1
    assert np.all(np.diff(times) >= 0)
    assert times[0] > 0
    assert times[-1] < seconds or len(times) == 1
    mean = rate * seconds
    assert abs(len(times) - mean) <= 7 * np.sqrt(mean) + 1  # beyond that once in 10^11


def test_gaps_of_poisson_arrivals_are_exponential() -> None:
    times = poisson_arrivals(200, 60, np.random.default_rng(1))
    gaps = np.diff(times, prepend=0.0)
    assert stats.kstest(gaps, "expon", args=(0, 1 / 200)).pvalue > 0.01
    assert abs(gaps.mean() * 200 - 1) < 0.05
    assert abs(stats.spearmanr(gaps[1:], gaps[:-1]).statistic) < 0.05  # a gap says nothing of the next


def test_one_seed_gives_one_schedule() -> None:
    first, second, other = (poisson_arrivals(100, 5, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(first, second)
    assert not np.array_equal(first[: len(other)], other[: len(first)])
