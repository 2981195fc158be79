"""95 % intervals of a corpus metric's paired difference: by resampling the samples, or by leaving groups out.

A corpus metric is a function of all samples together and no mean of their scores. Both sides are resampled with the
same weights, so what is hard for both cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np

from ....models.signature import Array
from .paired_intervals import RESAMPLES

# Weights (resamples, samples) -> the difference candidate - reference of each resample, shape (resamples,).
Difference: TypeAlias = Callable[[Array], Array]

_BLOCK = 1 << 22  # weights that one batch of resamples may hold: 32 MB
_GROUPS = 64
_T_95 = 1.9983405425207412  # two-sided 95 % of Student's t with 63 degrees of freedom


def bootstrap_interval(
    difference: Difference, samples: int, *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, float] | None:
    """Return the BCa interval of `difference`; None where the resamples do not vary, or too few have a value.

    Efron, "Better bootstrap confidence intervals", J. American Statistical Association 82 (1987) 171-185; the
    acceleration is the jackknife's. A resample without a value (a class that it lacks) is left out.
    """
    from scipy.special import ndtr, ndtri

    draws = np.concatenate([difference(weights) for weights in _resamples(samples, seed, resamples)])
    draws = draws[np.isfinite(draws)]
    observed = float(difference(np.ones((1, samples)))[0])
    if len(draws) < 0.9 * resamples or np.ptp(draws) <= 1e-12 * max(1.0, float(np.max(np.abs(draws)))):
        return None
    below = (np.count_nonzero(draws < observed) + 0.5 * np.count_nonzero(draws == observed)) / len(draws)
    bias = float(ndtri(min(max(below, 1 / len(draws)), 1 - 1 / len(draws))))
    slope = _acceleration(influences(difference, samples))
    shifted = bias + ndtri(np.array([0.025, 0.975]))
    shares = ndtr(bias + shifted / (1 - slope * shifted))
    low, high = np.quantile(draws, shares)
    return float(low), float(high)


def _resamples(samples: int, seed: int, resamples: int) -> Iterator[Array]:
    """Yield how often each sample was drawn, in batches of resamples."""
    rng = np.random.default_rng(seed)
    batch = max(1, _BLOCK // samples)
    for start in range(0, resamples, batch):
        count = min(batch, resamples - start)
        drawn = rng.integers(samples, size=(count, samples)) + samples * np.arange(count)[:, np.newaxis]
        yield np.bincount(drawn.ravel(), minlength=count * samples).reshape(count, samples).astype(np.float64)


def influences(value: Difference, samples: int) -> Array:
    """Return how much each sample adds: the value over all samples less that without it. Not finite ones count 0."""
    every = float(value(np.ones((1, samples)))[0])
    batch = max(1, _BLOCK // samples)
    parts = []
    for start in range(0, samples, batch):
        rows = np.arange(start, min(start + batch, samples))
        weights = np.ones((len(rows), samples))
        weights[np.arange(len(rows)), rows] = 0
        parts.append(every - value(weights))
    joined = np.concatenate(parts)
    return np.where(np.isfinite(joined), joined, 0.0)


def _acceleration(influence: Array) -> float:
    centred = influence - influence.mean()
    spread = float(np.sum(centred**2))
    return float(np.sum(centred**3)) / (6 * spread**1.5) if spread > 0 else 0.0


def jackknife_interval(difference: Difference, samples: int, *, seed: int = 0) -> tuple[float, float] | None:
    """Return the interval from leaving out each of 64 random groups, for a metric that is too dear to resample.

    None where nothing varies. Tukey's pseudo-values of the delete-a-group jackknife (Efron and Tibshirani, "An
    introduction to the bootstrap", 1993, chapter 11), with Student's t.
    """
    groups = np.random.default_rng(seed).permutation(samples) % _GROUPS
    kept = ((groups != group)[np.newaxis].astype(np.float64) for group in range(_GROUPS))
    left_out = np.concatenate([difference(weights) for weights in kept])
    left_out = left_out[np.isfinite(left_out)]
    observed = float(difference(np.ones((1, samples)))[0])
    if len(left_out) < 2 or np.ptp(left_out) <= 1e-12 * max(1.0, abs(observed)):
        return None
    error = float(np.sqrt((len(left_out) - 1) / len(left_out) * np.sum((left_out - left_out.mean()) ** 2)))
    return observed - _T_95 * error, observed + _T_95 * error


def unseen_interval(delta: float, value: Difference, samples: int) -> tuple[float, float]:
    """Return the interval of two sides that agree in every resample.

    Up to 1 - 0.05^(1/n) of all samples may be of a kind that was not seen (the rule of three), and any of them may
    move the metric as much as the sample that moves it most. `value` is the reference's own.
    """
    rows = min(samples, 1024)  # of more samples the largest influence of some stands for all
    influence = influences(lambda weights: value(_pad(weights, samples)), rows)
    reach = samples * float(np.max(np.abs(influence), initial=0.0)) * (1 - 0.05 ** (1 / samples))
    return delta - reach, delta + reach


def _pad(weights: Array, samples: int) -> Array:
    missing = samples - weights.shape[1]
    return np.pad(weights, ((0, 0), (0, missing)), constant_values=1.0) if missing else weights
