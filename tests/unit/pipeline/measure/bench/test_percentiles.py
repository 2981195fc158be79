"""Percentiles: intervals that hold the truth as often as they say, and are left out where samples are too few."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from transload.models.signature import Array
from transload.pipeline.measure.bench.percentiles import percentile
from transload.pipeline.measure.bench.statistics import summary


@pytest.mark.parametrize(("quantile", "count"), [(0.5, 25), (0.9, 200), (0.99, 2000), (0.999, 8000)])
def test_the_interval_holds_the_true_quantile(quantile: float, count: int) -> None:
    rng = np.random.default_rng(4)
    truth = -np.log(1 - quantile)  # the true quantile of an exponential distribution
    intervals = [percentile(rng.exponential(size=count), quantile).ci95 for _ in range(600)]
    held = [low <= truth <= high for low, high in filter(None, intervals)]
    assert len(held) == 600
    assert 0.935 <= np.mean(held) <= 0.99


def least_samples(quantile: float) -> int:
    """How many samples bound a quantile from above at 97.5 %."""
    return math.ceil(math.log(0.025) / math.log(quantile))


@pytest.mark.parametrize("quantile", [0.5, 0.99, 0.999])
def test_too_few_samples_support_no_interval(quantile: float) -> None:
    least = least_samples(quantile)
    assert 1 - quantile**least >= 0.975 > 1 - quantile ** (least - 1)
    assert percentile(np.arange(least + 1.0), quantile).ci95 is not None
    assert percentile(np.arange(least - 1.0), quantile).ci95 is None


def test_a_p999_that_nothing_supports_is_left_out() -> None:
    few, many = summary(np.arange(3000.0), 1), summary(np.arange(4000.0), 1)
    assert (few.p999_s, few.p999_ci95) == (None, None)
    assert few.p99_ci95 is not None
    assert many.p999_s == pytest.approx(3995, abs=1)
    assert many.p999_ci95 is not None
    assert summary(np.ones(5), 1).p99_ci95 is None


@given(samples=arrays(np.float64, st.integers(1, 400), elements=st.floats(0, 10)), quantile=st.floats(0.05, 0.95))
def test_the_interval_lies_around_the_value(samples: Array, quantile: float) -> None:
    estimate = percentile(samples, quantile)
    assert samples.min() <= estimate.value <= samples.max()
    if estimate.ci95 is not None:
        assert samples.min() <= estimate.ci95[0] <= estimate.ci95[1] <= samples.max()
        if len(samples) > 100:
            assert estimate.ci95[0] <= estimate.value <= estimate.ci95[1]
