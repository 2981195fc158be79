"""95 % intervals of a corpus metric and of its paired difference: by resampling samples, or by leaving groups out.

A corpus metric is a function of all samples together and no mean of their scores. Both sides are resampled with the
same weights, so what is hard for both cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ....models.signature import Array
from .paired_intervals import RESAMPLES

Value: TypeAlias = Callable[[Array], Array]  # weights (resamples, samples) -> the metric of each, shape (resamples,)
GROUPS = 4096  # most samples, or groups of them, that are resampled

_BLOCK = 1 << 22  # weights that one batch of resamples may hold: 32 MB
_LEFT_OUT = 64  # groups
_T_95 = 1.9983405425207412  # two-sided 95 % of Student's t with 63 degrees of freedom


@dataclass(frozen=True, eq=False)
class Replicates:
    """A corpus metric of one model: over all samples, and of resamples of them.
    How samples are drawn depends on their number alone. So the replicates of two models on one test set are paired,
    also where the two were made in different runs."""

    value: float
    draws: Array  # of each resample; or with each of 64 groups left out. Not finite: it lacks a class
    influences: Array  # how much each sample, or group of samples, adds to the value; empty where groups were left out
    samples: int

    def minus(self, other: Replicates) -> Replicates:
        """Return the replicates of the difference of two models on one test set."""
        with np.errstate(invalid="ignore"):
            draws = self.draws - other.draws
        return Replicates(self.value - other.value, draws, self.influences - other.influences, self.samples)

    def interval(self, reach: float) -> tuple[float, float]:
        """Return the 95 % interval; the value -+ `reach` where the draws do not vary, or too few are finite."""
        interval = _bca(self) if len(self.influences) else _jackknife(self)
        return (self.value - reach, self.value + reach) if interval is None else interval

    @property
    def unseen_reach(self) -> float:
        """How far the value may lie from that of all samples for what was not seen.
        Up to 1 - 0.05^(1/n) of all samples may be of a kind that was not seen (the rule of three), and any of them may
        move the metric as much as the sample that moves it most."""
        units = len(self.influences) or self.samples
        influences = self.influences if len(self.influences) else self.value - self.draws
        finite = np.abs(influences[np.isfinite(influences)])
        return float(len(influences) * np.max(finite, initial=0.0) * (1 - 0.05 ** (1 / units)))


def replicate(value: Value, units: int, samples: int, *, seed: int = 0, resamples: int = RESAMPLES) -> Replicates:
    """Resample a corpus metric of `samples`, or of groups of them; of more than 4,096 units leave groups out, which is
    cheaper. `units`: the samples or groups that are weighted."""
    observed = float(value(np.ones((1, units)))[0])
    if units > GROUPS:
        groups = np.random.default_rng(seed).permutation(units) % _LEFT_OUT
        kept = ((groups != group)[np.newaxis].astype(np.float64) for group in range(_LEFT_OUT))
        return Replicates(observed, np.concatenate([value(weights) for weights in kept]), np.empty(0), samples)
    draws = np.concatenate([value(weights) for weights in _resamples(units, seed, resamples)])
    return Replicates(observed, draws, _influences(value, observed, units), samples)


def _bca(replicates: Replicates) -> tuple[float, float] | None:
    """Return the BCa interval; None where the resamples do not vary, or too few have a value.

    Efron, "Better bootstrap confidence intervals", J. American Statistical Association 82 (1987) 171-185; the
    acceleration is the jackknife's. A resample without a value (a class that it lacks) is left out.
    """
    from scipy.special import ndtr, ndtri

    observed, draws = replicates.value, replicates.draws[np.isfinite(replicates.draws)]
    if len(draws) < 0.9 * len(replicates.draws) or np.ptp(draws) <= 1e-12 * max(1.0, float(np.max(np.abs(draws)))):
        return None
    below = (np.count_nonzero(draws < observed) + 0.5 * np.count_nonzero(draws == observed)) / len(draws)
    bias = float(ndtri(min(max(below, 1 / len(draws)), 1 - 1 / len(draws))))
    slope = _acceleration(replicates.influences)
    shifted = bias + ndtri(np.array([0.025, 0.975]))
    shares = ndtr(bias + shifted / (1 - slope * shifted))
    low, high = np.quantile(draws, shares)
    return float(low), float(high)


def _jackknife(replicates: Replicates) -> tuple[float, float] | None:
    """Return the interval from leaving out each of 64 random groups; None where nothing varies.

    Tukey's pseudo-values of the delete-a-group jackknife (Efron and Tibshirani, "An introduction to the bootstrap",
    1993, chapter 11), with Student's t.
    """
    observed, left_out = replicates.value, replicates.draws[np.isfinite(replicates.draws)]
    if len(left_out) < 2 or np.ptp(left_out) <= 1e-12 * max(1.0, abs(observed)):
        return None
    error = float(np.sqrt((len(left_out) - 1) / len(left_out) * np.sum((left_out - left_out.mean()) ** 2)))
    return observed - _T_95 * error, observed + _T_95 * error


def _resamples(samples: int, seed: int, resamples: int) -> Iterator[Array]:
    """Yield how often each sample was drawn, in batches of resamples."""
    rng = np.random.default_rng(seed)
    batch = max(1, _BLOCK // samples)
    for start in range(0, resamples, batch):
        count = min(batch, resamples - start)
        drawn = rng.integers(samples, size=(count, samples)) + samples * np.arange(count)[:, np.newaxis]
        yield np.bincount(drawn.ravel(), minlength=count * samples).reshape(count, samples).astype(np.float64)


def _influences(value: Value, every: float, samples: int) -> Array:
    """Return how much each sample adds: the value over all samples less that without it. Not finite ones count 0."""
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
