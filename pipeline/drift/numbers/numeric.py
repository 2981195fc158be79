"""Drift of a candidate's outputs from the reference's, as numbers that stream and merge.

Any split of the data gives the same counts and maxima to the last bit, and the same sums to 1e-12 relative.
Formulas and the cases at their edges: docs/design/drift.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ....models.signature import Array
from .column_drift import ColumnAxis, ColumnSums, merge_columns, sum_columns

BOUND_DB = 999.0  # stands for a ratio beyond what JSON or float64 can hold; float64 itself resolves about 320 dB
_SAME = 1e-6  # a reference that spans less than this share of its own size over all samples does not vary
_ROUNDING = 1e-5  # of the largest value that differs: more noise than this is none of float32's rounding
_SMALL_SHARE = 0.05  # small values are this share of those that are not zero, at least
_EXPONENTS = 2048  # of float64, as its bits have them
_BLOCK = 1 << 15  # elements that are compared at a time: a few arrays of 256 KB
_ROW = 512  # elements: numpy takes longer to begin a row than for many elements of it


@dataclass(frozen=True, eq=False)
class Span:
    """Least and largest reference value of each element of a sample, as arrays of a sample's shape."""

    low: Array
    high: Array

    def merge(self, other: Span) -> Span | None:
        """Return the span of both; None where the samples have unlike shapes (which is variation enough)."""
        if self.low.shape != other.low.shape:
            return None
        return Span(np.fmin(self.low, other.low), np.fmax(self.high, other.high))

    @property
    def varies(self) -> bool:
        """Whether anything differs between samples by more than rounding does.
        An element that stays the same to the bit (a mask of -1e9) is no measure of the rest."""
        if self.low.dtype.kind in "iub":
            return bool(np.any(self.low != self.high))
        with np.errstate(invalid="ignore", over="ignore"):
            sizes = np.maximum(np.abs(self.low), np.abs(self.high))
            size = float(np.max(sizes, initial=0.0, where=np.isfinite(sizes) & (self.low != self.high)))
            return bool(np.any(self.high - self.low > _SAME * size))


@dataclass(frozen=True, eq=False)
class OutputDrift:
    """Drift of one output.
    The sums run over the elements that are finite on both sides, in float64, whatever the dtype. Complex numbers count
    as two reals."""

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
    columns: tuple[ColumnSums, ...] = ()  # for each axis that holds columns

    def merge(self, other: OutputDrift) -> OutputDrift:
        """Return the drift over the samples of both."""
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
            columns=merge_columns(self.columns, other.columns),
        )

    def beside(self, power: float) -> OutputDrift:
        """Return the same noise beside a signal of this mean square at least, and integers as equal."""
        signal = max(self.signal, power * self.finite)
        return replace(self, signal=signal, mismatches=0, by_scale=None, columns=())

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
        float64; BOUND_DB for noise too small for it."""
        if self.max_abs == 0:
            return None
        if self.signal == 0 or not math.isfinite(self.noise):
            return -BOUND_DB
        if self.noise == 0 or not math.isfinite(self.signal):
            return BOUND_DB
        return max(-BOUND_DB, min(BOUND_DB, 10 * (math.log10(self.signal) - math.log10(self.noise))))

    @property
    def small_db(self) -> float | None:
        """Signal to noise of the small values alone, in dB, which `sqnr_db` does not see beside large ones.
        Such are logits beside a mask of -1e9, or scores beside boxes in pixels. It is the worst of all sets "up to a
        magnitude" that hold a twentieth of the values or more, and whose noise is more than rounding of the larger ones
        can make. None where there is no such set."""
        if self.by_scale is None:
            return None
        elements, noise, signal = self.by_scale.cumsum(axis=1)
        elements = elements - self.by_scale[0, 0]  # of zeros the noise counts, and not their number
        with np.errstate(over="ignore", invalid="ignore"):
            telling = (elements > 0) & (elements >= _SMALL_SHARE * elements[-1])
            telling &= noise > (elements + self.by_scale[0, 0]) * np.square(_ROUNDING * self.reach)
        if not telling.any() or not np.isfinite(noise[telling]).all():
            return None
        with np.errstate(divide="ignore"):
            return max(-BOUND_DB, float(np.min(10 * (np.log10(signal[telling]) - np.log10(noise[telling])))))


def compare(candidate: Array, reference: Array, *, axes: Sequence[ColumnAxis] = ()) -> OutputDrift:
    """Return the drift of one output. Samples lie along axis 0; a scalar output counts as one sample.
    Floats are summed by column along each of `axes`, too.
    Raises ValueError where the shapes differ; mismatch_hints.py says what that looks like."""
    if candidate.shape != reference.shape:
        raise ValueError(f"shapes {candidate.shape} and {reference.shape} cannot be compared")
    if not reference.size:
        return OutputDrift(exact=reference.dtype.kind in "iub")
    actual, expected = (_reals(np.atleast_1d(array)) for array in (candidate, reference))
    if actual.dtype.kind in "iub" and expected.dtype.kind in "iub":
        return _compare_exact(actual, expected)
    drift = _compare_floats(actual, expected)
    return replace(drift, columns=sum_columns(actual, expected, axes)) if axes else drift


def _compare_exact(actual: Array, expected: Array) -> OutputDrift:
    gap = _gap(actual, expected)
    x, y = actual.astype(np.float64), expected.astype(np.float64)
    return OutputDrift(
        elements=actual.size,
        finite=actual.size,
        max_abs=float(gap.max()),
        noise=float(np.sum(gap * gap)),
        signal=float(np.sum(y * y)),
        power=float(np.sum(x * x)),
        product=float(np.sum(x * y)),
        mismatches=int(np.count_nonzero(actual != expected)),
        exact=True,
        span=Span(expected.min(axis=0), expected.max(axis=0)),
    )


def _compare_floats(actual: Array, expected: Array) -> OutputDrift:
    """Sum up in blocks that stay in the processor's cache: copies in float64 of whole outputs take most of the time."""
    if expected.dtype not in (np.float32, np.float64):
        expected = expected.astype(np.float64)
    low, high = (_reduce_samples(extreme, expected) for extreme in (np.fmin, np.fmax))
    span = Span(low.astype(np.float64), high.astype(np.float64))
    drift = OutputDrift()
    actual, expected = actual.ravel(), expected.ravel()
    for start in range(0, actual.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        drift = drift.merge(_compare_block(actual[block].astype(np.float64), expected[block].astype(np.float64)))
    return replace(drift, span=span, ragged=False)


def _reduce_samples(extreme: np.ufunc, array: Array) -> Array:
    """Reduce an array along axis 0. Short samples are put side by side first, to longer rows."""
    rows = array.reshape(len(array), -1)
    width = rows.shape[1]
    group = _ROW // width
    count = len(rows) // group * group if group > 1 else 0
    if count:
        folded = extreme.reduce(rows[:count].reshape(-1, group * width), axis=0).reshape(group, width)
        rows = np.concatenate([folded, rows[count:]])
    return np.asarray(extreme.reduce(rows, axis=0)).reshape(array.shape[1:])


def _compare_block(actual: Array, expected: Array) -> OutputDrift:
    """Return the drift of flat float64 arrays, without a span."""
    elements, non_finite, undefined = actual.size, 0, 0
    with np.errstate(over="ignore", invalid="ignore"):
        gap = actual - expected
        squares = gap * gap
        noise = float(squares.sum())
        if not math.isfinite(noise):  # something is NaN or infinite, or the sum too large
            finite = np.isfinite(actual) & np.isfinite(expected)
            agree = finite | (actual == expected) | (np.isnan(actual) & np.isnan(expected))
            non_finite, undefined = (int(np.count_nonzero(~agree & where)) for where in (True, ~np.isfinite(expected)))
            actual, expected, gap, squares = (array[finite] for array in (actual, expected, gap, squares))
            noise = float(squares.sum())
        signals = expected * expected
        return OutputDrift(
            elements=elements,
            finite=actual.size,
            max_abs=_bounded(max(float(gap.max(initial=0.0)), -float(gap.min(initial=0.0)))),
            noise=noise,
            signal=float(signals.sum()),
            power=float((actual * actual).sum()),
            product=float((actual * expected).sum()),
            non_finite=non_finite,
            undefined=undefined,
            reach=float(np.max(np.abs(expected) * (gap != 0), initial=0.0)),
            by_scale=_by_scale(expected, squares, signals),
        )


def _by_scale(expected: Array, squares: Array, signals: Array) -> Array:
    """Sum elements, noise and signal by the exponent of two of the reference; the first column is of zeros.
    The exponent is read from the bits of float64 (IEEE 754), where zeros have that of the numbers below 2^-1022."""
    exponents = (np.ascontiguousarray(expected).view(np.int64) >> 52) & 0x7FF
    sums = np.empty((3, _EXPONENTS))
    for row, weights in zip(sums, (None, squares, signals), strict=True):
        row[:] = np.bincount(exponents, weights, _EXPONENTS)
    return sums


def _sum(first: Array | None, second: Array | None) -> Array | None:
    if first is None or second is None:
        return second if first is None else first
    with np.errstate(over="ignore"):
        return np.asarray(first + second)


def _gap(actual: Array, expected: Array) -> Array:
    """Return |actual - expected| in float64, of integers that float64 itself might not tell apart."""
    common = np.result_type(actual, expected)
    if common.kind == "f":  # int64 beside uint64: numpy has no integer type for both
        return np.asarray([float(abs(int(x) - int(y))) for x, y in zip(actual.flat, expected.flat, strict=True)])
    common = np.dtype(np.uint8) if common.kind == "b" else common
    x, y = actual.astype(common), expected.astype(common)
    high, low = np.maximum(x, y).astype(np.uint64), np.minimum(x, y).astype(np.uint64)
    return np.asarray(high - low, dtype=np.float64)  # modulo 2^64, where the difference of two int64 always fits


def _reals(array: Array) -> Array:
    """Return a complex array as its real and imaginary parts along a new last axis; any other as it is."""
    return np.stack([array.real, array.imag], axis=-1) if array.dtype.kind == "c" else array


def _bounded(value: float) -> float:
    """Return the value, or float64's largest where it overflowed: JSON knows no infinity."""
    return min(value, np.finfo(np.float64).max.item())


@dataclass(frozen=True)
class Drift:
    """Drift of all outputs together; the worst output counts.
    Signal to noise is of the float outputs where there are any: integers must be equal instead."""

    max_abs: float
    rms: float
    cosine: float | None
    by_output: Mapping[str, float]  # signal to noise of each output that has noise, in dB
    non_finite: int
    mismatches: int
    exact_elements: int  # that `mismatches` are out of
    elements: int
    varies: bool  # any output does
    constant: tuple[str, ...]  # outputs that do not vary
    small_db: float | None = None  # of the small values alone, where they are hidden by large ones (OutputDrift)
    smallest: str | None = None  # the output with the lowest of those
    undefined: int = 0  # elements that are NaN or infinite in the reference and something else in the candidate
    least_finite: str | None = None  # the first output that is NaN or infinite on one side only
    columns: Mapping[str, float] = field(default_factory=dict)  # dB of columns that larger ones beside them hide

    @property
    def worst(self) -> str | None:
        """The output with the lowest signal to noise; None where there is no noise at all."""
        return min(self.by_output, key=lambda name: self.by_output[name], default=None)

    @property
    def sqnr_db(self) -> float | None:
        """The lowest signal to noise, in dB; None where there is no noise at all."""
        return min(self.by_output.values(), default=None)


def combine(outputs: Mapping[str, OutputDrift]) -> Drift:
    """Combine the drifts of all outputs of a model."""
    floats = {name: output for name, output in outputs.items() if not output.exact} or dict(outputs)
    noisy = {name: db for name, output in floats.items() if (db := output.sqnr_db) is not None}
    hidden = {name: db for name, output in floats.items() if (db := output.small_db) is not None}
    smallest = min(hidden, key=lambda name: hidden[name]) if hidden else None
    parts = outputs.values()
    cosines = [cosine for output in parts if (cosine := output.cosine) is not None]
    return Drift(
        max_abs=max((output.max_abs for output in parts), default=0.0),
        rms=max((output.rms for output in parts), default=0.0),
        cosine=min(cosines, default=None),
        by_output=noisy,
        non_finite=sum(output.non_finite for output in parts),
        mismatches=sum(output.mismatches for output in parts),
        exact_elements=sum(output.elements for output in parts if output.exact),
        elements=sum(output.elements for output in parts),
        varies=any(output.varies for output in parts),
        constant=tuple(name for name, output in outputs.items() if not output.varies),
        small_db=None if smallest is None else hidden[smallest],
        smallest=smallest,
        undefined=sum(output.undefined for output in parts),
        least_finite=next((name for name, output in outputs.items() if output.non_finite), None),
        columns={
            key: db for name, output in floats.items() for sums in output.columns for key, db in sums.hidden_db(name)
        },
    )
