"""Percentiles with intervals from order statistics.

The number of samples below the true q-quantile is binomial (n, q), whatever the distribution; the interval lies between
the two order statistics whose ranks bound it (Conover, Practical Nonparametric Statistics, 3.2). Calls that follow each
other are not quite independent, so the intervals are the least that must be reckoned with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....models.signature import Array


@dataclass(frozen=True, slots=True)
class Percentile:
    """A quantile of samples, in their unit. `ci95` is None where there are too few samples for an upper end."""

    value: float
    ci95: tuple[float, float] | None


def percentile(samples: Array, quantile: float) -> Percentile:
    """Estimate a quantile (0 < quantile < 1) by linear interpolation, with its 95 % interval.
    `samples` has shape (n,), n at least 1."""
    from scipy import stats

    ordered = np.sort(samples)
    value = float(np.quantile(ordered, quantile))
    low, high = (int(rank) for rank in stats.binom.ppf((0.025, 0.975), len(ordered), quantile))
    if high >= len(ordered):
        return Percentile(value, None)
    return Percentile(value, (float(ordered[max(low - 1, 0)]), float(ordered[high])))
