"""How far a candidate's outputs lie from the reference's, as numbers that stream and merge.

Any split of the data gives the same counts and maxima to the last bit, and the same sums to 1e-12 relative.
Formulas and the cases at their edges: docs/design/drift.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...models.signature import Array

BOUND_DB = 999.0  # stands for a ratio beyond what JSON or float64 can hold; float64 itself resolves about 320 dB
_SAME = 1e-6  # a reference that spans less than this share of its own size over all samples does not vary
_ROUNDING = 1e-5  # of the largest value that differs: more noise than this is none of float32's rounding
_SMALL_SHARE = 0.05  # small values are this share of those that are not zero, at least
_LEAST_EXPONENT, _EXPONENTS = -1080, 2110  # of float64, with a place below them for zero


@dataclass(frozen=True, eq=False)
class Span:
    """Least and largest reference value of each element of a sample, over all samples: arrays of a sample's shape."""

    low: Array
    high: Array

    def merge(self, other: Span) -> Span | None:
        """The span of both; None where the samples have unlike shapes (which is variation enough)."""
        if self.low.shape != other.low.shape:
            return None
        return Span(np.fmin(self.low, other.low), np.fmax(self.high, other.high))

    @property
    def varies(self) -> bool:
        """Whether anything differs between samples by more than rounding does. What stays the same to the bit (a mask
        of -1e9) is no measure of the rest."""
        if self.low.dtype.kind in "iub":
            return bool(np.any(self.low != self.high))
        with np.errstate(invalid="ignore", over="ignore"):
            sizes = np.maximum(np.abs(self.low), np.abs(self.high))
            size = float(np.max(sizes, initial=0.0, where=np.isfinite(sizes) & (self.low != self.high)))
            return bool(np.any(self.high - self.low > _SAME * size))


@dataclass(frozen=True, eq=False)
class OutputDrift:
    """One output of the candidate against the reference's. The sums run over the elements that are finite on both
    sides, in float64, whatever the dtype; complex numbers count as two reals."""

    elements: int = 0
    finite: int = 0  # elements that the sums are over
    max_abs: float = 0.0
    noise: float = 0.0  # sum of (candidate - reference)^2
    signal: float = 0.0  # sum of reference^2
    power: float = 0.0  # sum of candidate^2
    product: float = 0.0  # sum of candidate * reference
    non_finite: int = 0  # NaN or infinite on one side only, or unlike in kind or sign
    undefined: int = 0  # those of them where it is the reference that is NaN or infinite
    mismatches: int = 0  # of an exact output: elements that are not equal
    exact: bool = False  # integers and bools: there is no "nearly"
    span: Span | None = None
    ragged: bool = False  # samples have had unlike shapes
    reach: float = 0.0  # the largest reference value of those that are not equal to the bit
    by_scale: Array | None = None  # [3, exponents of two]: elements, noise and signal by the size of the reference

    def merge(self, other: OutputDrift) -> OutputDrift:
        """The drift over the samples of both."""
        if not self.elements or not other.elements:
            return other if other.elements else self
        span = None if self.span is None or other.span is None else self.span.merge(other.span)
        return OutputDrift(
            elements=self.elements + other.elements,
            finite=self.finite + other.finite,
            max_abs=max(self.max_abs, other.max_abs),
            noise=self.noise + other.noise,
            signal=self.signal + other.signal,
            power=self.power + other.power,
            product=self.product + other.product,
            non_finite=self.non_finite + other.non_finite,
            undefined=self.undefined + other.undefined,
            mismatches=self.mismatches + other.mismatches,
            exact=self.exact or other.exact,
            span=span,
            ragged=span is None,
            reach=max(self.reach, other.reach),
            by_scale=_sum(self.by_scale, other.by_scale),
        )

    @property
    def varies(self) -> bool:
        """Whether the reference varies over the samples. Where it does not, agreeing with it proves nothing."""
        return self.ragged or (self.span is not None and self.span.varies)

    @property
    def rms(self) -> float:
        """Root mean square of the difference; 0 where no element is finite on both sides."""
        return _bounded(math.sqrt(self.noise / self.finite)) if self.finite else 0.0

    @property
    def cosine(self) -> float | None:
        """Cosine between the two, -1..1. Two zero vectors agree (1), a zero one and another do not (0).
        None where nothing is finite, or where the sums overflowed."""
        if not self.finite:
            return None
        if not self.signal or not self.power:
            return 1.0 if self.signal == self.power else 0.0
        cosine = self.product / (math.sqrt(self.signal) * math.sqrt(self.power))
        return max(-1.0, min(1.0, cosine)) if math.isfinite(cosine) else None

    @property
    def sqnr_db(self) -> float | None:
        """Signal to noise in dB: 10 log10(sum reference^2 / sum (candidate - reference)^2).

        None where there is no noise at all. -BOUND_DB for noise on a reference that is zero, or noise too large for
        float64; BOUND_DB for noise too small for it.
        """
        if self.max_abs == 0:
            return None
        if self.signal == 0 or not math.isfinite(self.noise):
            return -BOUND_DB
        if self.noise == 0 or not math.isfinite(self.signal):
            return BOUND_DB
        return max(-BOUND_DB, min(BOUND_DB, 10 * (math.log10(self.signal) - math.log10(self.noise))))

    @property
    def small_db(self) -> float | None:
        """Signal to noise of the small values alone, in dB, which `sqnr_db` does not see beside large ones: logits
        beside a mask of -1e9, scores beside boxes in pixels.

        The worst of all sets "up to a magnitude" that hold a twentieth of the values or more and whose noise is more
        than rounding of the larger ones can make. None where there is no such set.
        """
        if self.by_scale is None:
            return None
        elements, noise, signal = self.by_scale.cumsum(axis=1)
        elements = elements - self.by_scale[0, 0]  # of zeros the noise counts, and not their number
        with np.errstate(over="ignore", invalid="ignore"):
            told = (elements > 0) & (elements >= _SMALL_SHARE * elements[-1])
            told &= noise > (elements + self.by_scale[0, 0]) * np.square(_ROUNDING * self.reach)
        if not told.any() or not np.isfinite(noise[told]).all():
            return None
        with np.errstate(divide="ignore"):
            return max(-BOUND_DB, float(np.min(10 * (np.log10(signal[told]) - np.log10(noise[told])))))


def compare(candidate: Array, reference: Array) -> OutputDrift:
    """The drift of one output. Samples lie along axis 0; a scalar output counts as one sample.

    Raises ValueError where the shapes differ: what that looks like is layout.py's to say.
    """
    if candidate.shape != reference.shape:
        raise ValueError(f"shapes {candidate.shape} and {reference.shape} cannot be compared")
    if not reference.size:
        return OutputDrift(exact=reference.dtype.kind in "iub")
    got, want = (_reals(np.atleast_1d(array)) for array in (candidate, reference))
    if got.dtype.kind in "iub" and want.dtype.kind in "iub":
        return _compare_exact(got, want)
    return _compare_floats(got.astype(np.float64), want.astype(np.float64))


def _compare_exact(got: Array, want: Array) -> OutputDrift:
    gap = _gap(got, want)
    x, y = got.astype(np.float64), want.astype(np.float64)
    return OutputDrift(
        elements=got.size,
        finite=got.size,
        max_abs=float(gap.max()),
        noise=float(np.sum(gap * gap)),
        signal=float(np.sum(y * y)),
        power=float(np.sum(x * x)),
        product=float(np.sum(x * y)),
        mismatches=int(np.count_nonzero(got != want)),
        exact=True,
        span=Span(want.min(axis=0), want.max(axis=0)),
    )


def _compare_floats(got: Array, want: Array) -> OutputDrift:
    finite = np.isfinite(got) & np.isfinite(want)
    agree = finite | (got == want) | (np.isnan(got) & np.isnan(want))
    span = Span(np.fmin.reduce(want, axis=0), np.fmax.reduce(want, axis=0))
    elements, undefined = got.size, int(np.count_nonzero(~agree & ~np.isfinite(want)))
    if not finite.all():
        got, want = got[finite], want[finite]
    with np.errstate(over="ignore", invalid="ignore"):
        gap = got - want
        return OutputDrift(
            elements=elements,
            finite=got.size,
            max_abs=_bounded(float(np.max(np.abs(gap), initial=0.0))),
            noise=float(np.sum(gap * gap)),
            signal=float(np.sum(want * want)),
            power=float(np.sum(got * got)),
            product=float(np.sum(got * want)),
            non_finite=int(np.count_nonzero(~agree)),
            undefined=undefined,
            span=span,
            reach=float(np.max(np.abs(want), initial=0.0, where=gap != 0)),
            by_scale=_by_scale(want, gap),
        )


def _by_scale(want: Array, gap: Array) -> Array:
    """Elements, noise and signal by the exponent of two of the reference; the first column is of zeros."""
    exponents = np.frexp(want)[1].ravel() - _LEAST_EXPONENT
    exponents[want.ravel() == 0] = 0
    weights = (None, np.square(gap).ravel(), np.square(want).ravel())
    return np.stack([np.bincount(exponents, each, _EXPONENTS).astype(np.float64) for each in weights])


def _sum(first: Array | None, second: Array | None) -> Array | None:
    if first is None or second is None:
        return second if first is None else first
    with np.errstate(over="ignore"):
        return np.asarray(first + second)


def _gap(got: Array, want: Array) -> Array:
    """|got - want| in float64, of integers that float64 itself might not tell apart."""
    common = np.result_type(got, want)
    if common.kind == "f":  # int64 beside uint64: numpy has no integer type for both
        return np.asarray([float(abs(int(x) - int(y))) for x, y in zip(got.flat, want.flat, strict=True)])
    common = np.dtype(np.uint8) if common.kind == "b" else common
    x, y = got.astype(common), want.astype(common)
    high, low = np.maximum(x, y).astype(np.uint64), np.minimum(x, y).astype(np.uint64)
    return np.asarray(high - low, dtype=np.float64)  # modulo 2^64, where the difference of two int64 always fits


def _reals(array: Array) -> Array:
    """A complex array as its real and imaginary parts along a new last axis; any other as it is."""
    return np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else array


def _bounded(value: float) -> float:
    """The value, or float64's largest where it overflowed: JSON knows no infinity."""
    return min(value, np.finfo(np.float64).max.item())


@dataclass(frozen=True)
class Drift:
    """All outputs together. The worst output counts. Signal to noise is of the float outputs where there are any:
    integers are held to equality instead."""

    max_abs: float
    rms: float
    cosine: float | None
    sqnr_db: float | None  # None: no noise at all
    non_finite: int
    mismatches: int
    exact_elements: int  # that `mismatches` are out of
    elements: int
    varies: bool  # any output does
    constant: tuple[str, ...]  # outputs that do not vary
    worst: str | None  # the output with the lowest signal to noise
    small_db: float | None = None  # of the small values alone, where they are hidden by large ones (OutputDrift)
    smallest: str | None = None  # the output with the lowest of those
    undefined: int = 0  # elements that are NaN or infinite in the reference and something else in the candidate
    least_finite: str | None = None  # the first output that is NaN or infinite on one side only


def combine(outputs: Mapping[str, OutputDrift]) -> Drift:
    """One record for all outputs of a model."""
    floats = {name: one for name, one in outputs.items() if not one.exact} or dict(outputs)
    noisy = {name: db for name, one in floats.items() if (db := one.sqnr_db) is not None}
    worst = min(noisy, key=lambda name: noisy[name]) if noisy else None
    hidden = {name: db for name, one in floats.items() if (db := one.small_db) is not None}
    smallest = min(hidden, key=lambda name: hidden[name]) if hidden else None
    parts = outputs.values()
    cosines = [cosine for one in parts if (cosine := one.cosine) is not None]
    return Drift(
        max_abs=max((one.max_abs for one in parts), default=0.0),
        rms=max((one.rms for one in parts), default=0.0),
        cosine=min(cosines, default=None),
        sqnr_db=None if worst is None else noisy[worst],
        non_finite=sum(one.non_finite for one in parts),
        mismatches=sum(one.mismatches for one in parts),
        exact_elements=sum(one.elements for one in parts if one.exact),
        elements=sum(one.elements for one in parts),
        varies=any(one.varies for one in parts),
        constant=tuple(name for name, one in outputs.items() if not one.varies),
        worst=worst,
        small_db=None if smallest is None else hidden[smallest],
        smallest=smallest,
        undefined=sum(one.undefined for one in parts),
        least_finite=next((name for name, one in outputs.items() if one.non_finite), None),
    )
