"""95 % intervals of the mean paired difference of scores, one score a sample."""

from __future__ import annotations

import math

import numpy as np

from ....models.signature import Array
from .equivalence import Z95

RESAMPLES = 4999
_BLOCK = 1 << 21  # float64 elements that one batch of resamples may hold: 16 MB
_LARGE = 4096  # from so many samples on the mean is normal, and a bootstrap only costs time


def paired_interval(reference: Array, candidate: Array, *, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of mean(candidate - reference), shape (samples,) each, at least one sample.
    Scores that are all 0 or 1 get the adjusted Wald interval; others a bootstrap of the mean paired difference (BCa,
    4999 resamples, seeded), or from 4096 samples on the normal interval, which it has then become."""
    if not len(reference):
        raise ValueError("an interval needs at least one sample")
    if np.isin(reference, (0, 1)).all() and np.isin(candidate, (0, 1)).all():
        won = int(np.count_nonzero(candidate > reference))
        lost = int(np.count_nonzero(candidate < reference))
        return paired_proportions(won, lost, len(reference))
    gaps = np.asarray(candidate, np.float64) - np.asarray(reference, np.float64)
    rounding = 1e-12 * max(float(np.max(np.abs(reference))), float(np.max(np.abs(candidate))))
    if np.ptp(gaps) <= rounding or len(gaps) < 3:
        return _constant_interval(gaps, reference, candidate)
    if len(gaps) >= _LARGE:
        half = Z95 * float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
        return float(gaps.mean()) - half, float(gaps.mean()) + half
    return _bootstrap(gaps, seed)


def paired_proportions(won: int, lost: int, samples: int) -> tuple[float, float]:
    """Return the 95 % interval of the difference of two paired proportions.

    `won` samples only the candidate has right, `lost` only the reference. The interval is not empty even where both are
    0: an error that 540 samples do not show may still happen.

    Bonett and Price, "Adjusted Wald confidence interval for a difference of binomial proportions based on paired
    data", J. Educational and Behavioral Statistics 37 (2012) 479-488: one is added to each discordant count.
    """
    p, q = (won + 1) / (samples + 2), (lost + 1) / (samples + 2)
    half = Z95 * math.sqrt((p + q - (p - q) ** 2) / (samples + 2))
    return max(-1.0, p - q - half), min(1.0, p - q + half)


def _constant_interval(gaps: Array, reference: Array, candidate: Array) -> tuple[float, float]:
    """Return the interval of differences that are all the same, or too few to resample.
    Up to 1 - 0.05^(1/n) of all samples may be of a kind that was not seen (the rule of three). Any of them may differ
    by the range of scores that was seen."""
    seen = np.concatenate([np.ravel(reference), np.ravel(candidate), [0.0]])
    reach = float(np.ptp(seen)) * (1 - 0.05 ** (1 / len(gaps)))
    return float(gaps.min()) - reach, float(gaps.max()) + reach


def _bootstrap(gaps: Array, seed: int) -> tuple[float, float]:
    from scipy import stats  # a second to import, and only scores other than 0 and 1 need it

    scale = float(np.max(np.abs(gaps)))  # scores in millionths or in millions are resampled alike
    intervals: dict[str, tuple[float, float]] = {}
    for method in ("BCa", "percentile"):
        with np.errstate(all="ignore"):
            interval = stats.bootstrap(
                (gaps / scale,),
                np.mean,
                vectorized=True,
                n_resamples=RESAMPLES,
                batch=max(1, _BLOCK // len(gaps)),
                method=method,
                rng=np.random.default_rng(seed),
            ).confidence_interval
        intervals[method] = float(interval.low) * scale, float(interval.high) * scale
        if np.isfinite(intervals[method]).all() and intervals[method][0] < intervals[method][1]:
            return intervals[method]
    return intervals["percentile"]
