"""MLPerf's early stopping: a bound on a percentile that holds with 99 % confidence, however few the samples.

Of n independent requests, the number above the true quantile q is binomial (n, 1 - q). Where t or fewer above it have
a probability of at most 1 %, the t-th largest latency bounds the quantile. LoadGen does so for t from 1 on
(mlcommons/inference, loadgen/results.cc, EarlyStopping; docs: loadgen/early_stopping.md)."""

from __future__ import annotations

from ....models.signature import Array

DOUBT = 0.01  # 1 - confidence


def bound(ordered_s: Array, quantile: float) -> float | None:
    """Return the bound on a quantile of sorted latencies, shape (requests,); None where there are too few requests."""
    from scipy import stats

    count = len(ordered_s)
    discarded = int(stats.binom.ppf(DOUBT, count, 1 - quantile)) if count else 0
    if count and stats.binom.cdf(discarded, count, 1 - quantile) > DOUBT:
        discarded -= 1
    return float(ordered_s[count - discarded]) if discarded >= 1 else None


def least_requests(quantile: float) -> int:
    """Return how many requests give a bound: 64 for p90, 662 for p99."""
    from scipy import stats

    low, high = 1, 1
    while stats.binom.cdf(1, high, 1 - quantile) > DOUBT:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        enough = stats.binom.cdf(1, middle, 1 - quantile) <= DOUBT
        low, high = (low, middle) if enough else (middle + 1, high)
    return low


def keeps_bound(over: int, count: int, quantile: float) -> bool:
    """Return whether `over` of `count` requests above a limit show that the quantile lies below it."""
    from scipy import stats

    return bool(stats.binom.cdf(over, count, 1 - quantile) <= DOUBT)
