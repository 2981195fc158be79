"""95 % intervals of the mean paired difference of scores, one score a sample.

Up to 4096 scores are resampled. Of more, sums are enough, which may be merged: no score need be kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ....models.signature import Array
from .equivalence import Z95

RESAMPLES = 4999
_BLOCK = 1 << 21  # float64 elements that one batch of resamples may hold: 16 MB
LARGE = 4096  # from so many samples on the mean is normal, and a bootstrap only costs time


def paired_interval(reference: Array, candidate: Array, *, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % interval of mean(candidate - reference), shape (samples,) each, at least one sample.
    Scores that are all 0 or 1 get the adjusted Wald interval; others a bootstrap of the mean paired difference (BCa,
    4999 resamples, seeded), or from 4096 samples on the normal interval, which it has then become."""
    if not len(reference):
        raise ValueError("an interval needs at least one sample")
    return PairedSpread.of(reference, candidate).interval(seed)


@dataclass(frozen=True, eq=False)
class PairedSpread:
    """Sums and extremes of paired scores and of their gaps (candidate - reference), exact for any split of them."""

    samples: int
    reference: float  # sum
    candidate: float  # sum
    mean: float  # of the gaps
    squares: float  # sum of the squared distances of the gaps from their mean
    gaps: tuple[float, float]  # least and largest
    scores: tuple[float, float]  # least and largest of both sides
    won: int  # samples that the candidate has the larger score of
    lost: int
    binary: bool  # all scores are 0 or 1
    few: Array | None = None  # the gaps themselves, where they are few enough to be resampled

    @classmethod
    def of(cls, reference: Array, candidate: Array) -> PairedSpread:
        """Sum up scores of shape (samples,) each, at least one sample."""
        scores = np.asarray([reference, candidate], np.float64)
        gaps = scores[1] - scores[0]
        return cls(
            samples=len(gaps),
            reference=float(scores[0].sum()),
            candidate=float(scores[1].sum()),
            mean=float(gaps.mean()),
            squares=float(np.sum((gaps - gaps.mean()) ** 2)),
            gaps=(float(gaps.min()), float(gaps.max())),
            scores=(float(scores.min()), float(scores.max())),
            won=int(np.count_nonzero(gaps > 0)),
            lost=int(np.count_nonzero(gaps < 0)),
            binary=bool(np.isin(scores, (0, 1)).all()),
            few=gaps if len(gaps) < LARGE else None,
        )

    def merge(self, other: PairedSpread) -> PairedSpread:
        """Return the spread over the samples of both.
        Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979)."""
        samples = self.samples + other.samples
        shift = other.mean - self.mean
        few = None if self.few is None or other.few is None else np.concatenate([self.few, other.few])
        return PairedSpread(
            samples=samples,
            reference=self.reference + other.reference,
            candidate=self.candidate + other.candidate,
            mean=self.mean + shift * other.samples / samples,
            squares=self.squares + other.squares + shift * shift * self.samples * other.samples / samples,
            gaps=(min(self.gaps[0], other.gaps[0]), max(self.gaps[1], other.gaps[1])),
            scores=(min(self.scores[0], other.scores[0]), max(self.scores[1], other.scores[1])),
            won=self.won + other.won,
            lost=self.lost + other.lost,
            binary=self.binary and other.binary,
            few=None if few is None or len(few) >= LARGE else few,
        )

    def interval(self, seed: int = 0) -> tuple[float, float]:
        """Return the 95 % interval of the mean gap, as `paired_interval` does."""
        if self.binary:
            return paired_proportions(self.won, self.lost, self.samples)
        low, high = self.gaps
        if high - low <= 1e-12 * max(map(abs, self.scores)) or self.samples < 3:
            return self._constant_interval()
        if self.few is not None:
            return _bootstrap(self.few, seed)
        half = Z95 * math.sqrt(self.squares / (self.samples - 1) / self.samples)
        return self.mean - half, self.mean + half

    def _constant_interval(self) -> tuple[float, float]:
        """Return the interval of gaps that are all the same, or too few to resample.
        Up to 1 - 0.05^(1/n) of all samples may be of a kind that was not seen (the rule of three). Any of them may
        differ by the range of scores that was seen."""
        reach = (max(self.scores[1], 0.0) - min(self.scores[0], 0.0)) * (1 - 0.05 ** (1 / self.samples))
        return self.gaps[0] - reach, self.gaps[1] + reach


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
