"""Noise and signal of an output by column, where a large column hides what is wrong in a small one.

A column is an index of the last axis, or of the axis after the batch (a channel), where the signature fixes its size:
money and a probability side by side, or boxes in pixels beside scores.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ....models.signature import Array, Signature, TensorSpec

MOST_COLUMNS = 1024  # of an axis; a vocabulary has no columns of unlike size
LEAST_VALUES = 4  # of a column, from which its noise can be told
_HIDDEN = 1e-2  # a column with less than this share of the largest one's mean square is hidden beside it
# ONNX Runtime's Logistic is off by up to 1e-7 where it saturates, whatever the size of the answer. Less does not count
# between columns of at most 1: these are shares or probabilities, of one unit.
_SATURATION = 2**-23
_BLOCK = 1 << 18  # elements that are summed at a time, in float64
_MARGIN_DB = 15.0  # beside that of whole outputs: of many columns the worst decides
_TAIL_Z = 3.09  # one column of a thousand has less noise than this lower end of the interval of its variance


@dataclass(frozen=True)
class ColumnAxis:
    """An axis whose indices are columns: its position from the end, and the rank of the output in its signature."""

    position: int  # below 0
    rank: int

    def name(self, output: str, column: int) -> str:
        """Write a column as numpy slices it: "y[:, 1]", "y[..., 1]"."""
        before = self.rank + self.position
        slices = ["..."] if before > 1 and self.position == -1 else [":"] * before
        return f"{output}[{', '.join([*slices, str(column)])}]"


ColumnAxes: TypeAlias = Mapping[str, Sequence[ColumnAxis]]  # of each output that has some


def column_axes(signature: Signature) -> ColumnAxes:
    """Return the axes of each output whose indices are columns; outputs without any are left out."""
    first, floats = int(signature.batch is not None), (spec for spec in signature.outputs if "float" in spec.dtype)
    axes = {spec.name: tuple(_axes_of(spec, first)) for spec in floats}
    return {name: own for name, own in axes.items() if own}


def _axes_of(spec: TensorSpec, first: int) -> Iterator[ColumnAxis]:
    rank = len(spec.shape)
    for at in dict.fromkeys((rank - 1, first)):
        size = spec.shape[at] if first <= at < rank else None
        if isinstance(size, int) and 1 < size <= MOST_COLUMNS:
            yield ColumnAxis(at - rank, rank)


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums of squares by column, over the elements that are finite on both sides."""

    axis: ColumnAxis
    noise: Array  # [columns]: of candidate - reference
    signal: Array  # [columns]: of the reference
    values: int  # elements of each column

    def hidden_db(self, output: str) -> Iterator[tuple[str, float]]:
        """Yield the signal to noise in dB of each column that has noise and is hidden beside a larger one, by name.
        A column of zeros has none that means something."""
        yield from self._hidden_db(output, self.values * _SATURATION**2 if self.signal.max() <= self.values else 0.0)

    def _hidden_db(self, output: str, least_noise: float) -> Iterator[tuple[str, float]]:
        """Yield the signal to noise in dB of each hidden column with more than `least_noise`, a sum of squares."""
        hidden = (self.signal > 0) & (self.signal < _HIDDEN * self.signal.max()) & (self.noise > least_noise)
        for at in np.flatnonzero(hidden & np.isfinite(self.noise) & np.isfinite(self.signal)):
            yield self.axis.name(output, int(at)), 10 * math.log10(self.signal[at] / self.noise[at])

    def floors_db(self, output: str, most_db: float) -> Iterator[tuple[str, float]]:
        """Yield how well each hidden column agrees at least, by name: below `most_db`, and less the fewer values it has
        (the lower end of the interval of a variance, by Wilson and Hilferty's approximation of chi-square)."""
        if self.values < LEAST_VALUES:
            return
        spread = 2 / (9 * self.values)
        least_share = max(1 - spread - _TAIL_Z * math.sqrt(spread), 0.1) ** 3
        bounded = replace(self, noise=np.maximum(self.noise, self.signal * 10 ** (-most_db / 10)))
        for name, noise_db in bounded._hidden_db(output, 0.0):
            yield name, noise_db + 10 * math.log10(least_share) - _MARGIN_DB


def sum_columns(candidate: Array, reference: Array, axes: Sequence[ColumnAxis]) -> tuple[ColumnSums, ...]:
    """Sum an output's squares by column along each axis, in float64. Samples lie along axis 0."""
    places = [reference.ndim + axis.position for axis in axes]
    summed = [tuple(other for other in range(reference.ndim) if other != at) for at in places]
    noises, signals = ([np.zeros(reference.shape[at]) for at in places] for _ in range(2))
    step = max(1, _BLOCK * len(reference) // max(1, reference.size))
    for start in range(0, len(reference), step):
        actual, expected = (side[start : start + step].astype(np.float64) for side in (candidate, reference))
        with np.errstate(over="ignore", invalid="ignore"):
            noise, signal = np.square(actual - expected), np.square(expected)
            lost = ~np.isfinite(noise)
            noise[lost] = signal[lost] = 0
            for at, rest in enumerate(summed):
                noises[at] += noise.sum(axis=rest)
                signals[at] += signal.sum(axis=rest)
    sums = zip(axes, noises, signals, strict=True)
    return tuple(ColumnSums(axis, noise, signal, reference.size // len(noise)) for axis, noise, signal in sums)


def merge_columns(first: Sequence[ColumnSums], second: Sequence[ColumnSums]) -> tuple[ColumnSums, ...]:
    """Add sums of the same columns; none where the two have others."""
    if [sums.noise.shape for sums in first] != [sums.noise.shape for sums in second]:
        return ()
    return tuple(
        ColumnSums(sums.axis, sums.noise + more.noise, sums.signal + more.signal, sums.values + more.values)
        for sums, more in zip(first, second, strict=True)
    )
