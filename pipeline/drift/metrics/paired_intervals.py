"""95 % intervals of the mean of scores, one score a sample: of one model's, and of the difference of two.

Up to 4096 scores are resampled; the mean of more is normal.
"""

from __future__ import annotations

import math

import numpy as np

from ....models.signature import Array
from .equivalence import Z95

RESAMPLES = 4999
_BLOCK = 1 << 21  # float64 elements that one batch of resamples may hold: 16 MB
LARGE = 4096  # from so many samples on the mean is normal, and a bootstrap only costs time
_LEAST = 3  # samples that can be resampled


def paired_interval(reference: Array, candidate: Array, *, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of mean(candidate - reference), shape (samples,) each, at least one sample.
    Scores that are all 0 or 1 get the adjusted Wald interval; others a bootstrap of the mean paired difference (BCa,
    4999 resamples, seeded), or from 4096 samples on the normal interval, which it has then become."""
    scores = np.asarray([reference, candidate], np.float64)
    samples = scores.shape[1]
    if not samples:
        raise ValueError("an interval needs at least one sample")
    if is_binary(scores):
        return paired_proportions(*won_and_lost(*scores), samples)
    gaps = scores[1] - scores[0]
    low, high = float(gaps.min()), float(gaps.max())
    if high - low <= 1e-12 * float(np.max(np.abs(scores))) or samples < _LEAST:
        reach = _unseen_reach(scores)
        return low - reach, high + reach
    return _bootstrap(gaps, seed) if samples < LARGE else _normal(gaps)


def own_interval(scores: Array) -> tuple[float, float]:
    """Return the 95 % interval of mean(scores), shape (samples,), at least one sample.
    Scores that are all 0 or 1 get Wilson's interval (J. American Statistical Association 22, 1927, 209-212); others the
    normal one; where all are the same, the rule of three widens them by the range from 0."""
    scores = np.asarray(scores, np.float64)
    samples, mean = len(scores), float(scores.mean())
    if is_binary(scores):
        centre = (mean + Z95**2 / (2 * samples)) / (1 + Z95**2 / samples)
        half = Z95 * math.sqrt(mean * (1 - mean) / samples + Z95**2 / (4 * samples**2)) / (1 + Z95**2 / samples)
        return min(mean, max(0.0, centre - half)), max(mean, min(1.0, centre + half))
    if samples < _LEAST or float(np.ptp(scores)) <= 1e-12 * float(np.max(np.abs(scores))):
        reach = _unseen_reach(scores)
        return float(scores.min()) - reach, float(scores.max()) + reach
    return _normal(scores)


def is_binary(scores: Array) -> bool:
    """Return whether all scores are 0 or 1: one right or wrong answer a sample."""
    return bool(np.isin(scores, (0, 1)).all())


def won_and_lost(reference: Array, candidate: Array) -> tuple[int, int]:
    """Return of how many samples the candidate has the larger score, and of how many the smaller one."""
    return int(np.count_nonzero(candidate > reference)), int(np.count_nonzero(candidate < reference))


def _unseen_reach(scores: Array) -> float:
    """Return how far the interval of numbers reaches that are all the same, or too few to resample.
    Up to 1 - 0.05^(1/n) of all samples may be of a kind that was not seen (the rule of three). Any of them may differ
    by the range of scores that was seen."""
    least, most = min(float(scores.min()), 0.0), max(float(scores.max()), 0.0)
    return float((most - least) * (1 - 0.05 ** (1 / scores.shape[-1])))


def _normal(values: Array) -> tuple[float, float]:
    mean, half = float(values.mean()), Z95 * float(values.std(ddof=1)) / math.sqrt(len(values))
    return mean - half, mean + half


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
