"""Masks that hide all or nothing, and floats that are all zero: no row of random samples is so by chance.

A masked row makes an attention, a mean or a maximum over nothing, and there copies differ. Silence, padding and black
pictures show what stands beside a zero to divide by: `x / (norm + 1e-8)`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from ..dataset import Dataset
from ..signature import Array, TensorSpec, ValueRange
from .random_inputs import has_telling_name


class Fill(StrEnum):
    """A single value that an input holds in place of random numbers, in all of a call or in some of its rows."""

    NONE = "none"
    ALL = "all"
    SOME_NONE = "some none"
    SOME_ALL = "some all"
    LEFT = "left"  # padding on the left: zeros, then ones, as many as the row's number says
    HOLES = "holes"  # every third place hidden
    SINGLE = "single"  # one place of each row seen
    BLANK = "blank"  # zeros in an input of floats: in one call all, in the next some rows
    LARGE = "large"  # these and the next in an input of floats: stress_floats.py
    TINY = "tiny"
    TAILS = "tails"
    ONES = "ones"
    TIES = "ties"
    NAN = "nan"
    INFINITE = "infinite"
    MISSING = "missing"  # NaN as tables with gaps have it: each place of a sample in one of two samples

    @property
    def in_rows(self) -> bool:
        """Whether it fills single rows along the last axis."""
        return self in (Fill.SOME_NONE, Fill.SOME_ALL)

    @property
    def is_pattern(self) -> bool:
        """Whether it is a pattern of zeros and ones along the last axis."""
        return self in (Fill.LEFT, Fill.HOLES, Fill.SINGLE)

    @property
    def is_stress(self) -> bool:
        """Whether it is one of the values of stress_floats.py."""
        return self in STRESS

    @property
    def is_undefined(self) -> bool:
        """Whether it holds NaN or infinities."""
        return self in (Fill.NAN, Fill.INFINITE, Fill.MISSING)

    @property
    def is_paired(self) -> bool:
        """Whether every second sample is another than the first: one alone does not show it."""
        return self.is_undefined or self is Fill.TIES

    @property
    def content(self) -> bool:
        """The value that it fills with."""
        return self in (Fill.ALL, Fill.SOME_ALL)

    def describe(self, *, boolean: bool) -> str:
        """Name it in a sentence, as in "all false in single rows"."""
        if words := _WORDS.get(self):
            return words
        return f"all {str(self.content).lower() if boolean else int(self.content)}{' in single rows' * self.in_rows}"


STRESS = (Fill.LARGE, Fill.TINY, Fill.TAILS, Fill.ONES, Fill.TIES, Fill.NAN, Fill.INFINITE, Fill.MISSING)
_WORDS = {
    Fill.LEFT: "padded on the left",
    Fill.HOLES: "with holes",
    Fill.SINGLE: "with one place seen",
    Fill.BLANK: "all 0, or 0 in single rows",
    Fill.LARGE: "1000 times as large",
    Fill.TINY: "10000 times as small",
    Fill.TAILS: "from -100 to 100",
    Fill.ONES: "all 1",
    Fill.TIES: "rounded to whole numbers, halves and eighths",
    Fill.NAN: "NaN in one place",
    Fill.INFINITE: "infinite in two places",
    Fill.MISSING: "NaN in every second place",
}


def mask_inputs(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return the inputs that hold true and false, or 0 and 1 as their names tell."""
    return tuple(spec for spec in specs if spec.dtype == "bool" or has_telling_name(spec.name))


def blank_inputs(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return the inputs that may be blank: those of floats that are no masks, and may be 0."""
    floats = (spec for spec in specs if "float" in spec.dtype and not has_telling_name(spec.name))
    ranges = ((spec, spec.values) for spec in floats)
    return tuple(spec for spec, own in ranges if not isinstance(own, ValueRange) or own.low <= 0 <= own.high)


def stress_inputs(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return the inputs that may hold any float: those of floats whose values are not declared."""
    return tuple(spec for spec in blank_inputs(specs) if spec.values is None)


def apply_fills(data: Dataset, fills: Mapping[str, Fill], samples_per_call: int) -> Dataset:
    """Fill the named inputs of the samples.
    Every second call keeps its values, or most of them. Where a mask hides all, answers are often 0; the noise beside
    0 is measured against the answers of the calls that keep theirs."""
    filled = {name: _fill_array(data.inputs[name], fill, samples_per_call) for name, fill in fills.items()}
    return Dataset({**data.inputs, **filled}, data.labels)


def _fill_array(array: Array, fill: Fill, samples_per_call: int) -> Array:
    calls = _broadcastable(np.arange(len(array)) // samples_per_call % 2 == 0, array)
    rows = array.shape[: max(1, array.ndim - 1)]
    if fill.is_pattern:
        return np.where(calls, _pattern(array.shape, fill).astype(array.dtype), array)
    third = _broadcastable(np.arange(math.prod(rows)).reshape(rows) % 3 == 0, array)
    chosen = calls | third if fill is Fill.BLANK else third if fill.in_rows else calls
    return np.where(chosen, array.dtype.type(fill.content), array)


def _pattern(shape: tuple[int, ...], fill: Fill) -> Array:
    """Return which places of each row along the last axis are seen; each row has some."""
    width = shape[-1]
    if width < 2:
        return np.ones(shape, bool)
    places, row = np.arange(width), np.arange(math.prod(shape[:-1])).reshape(*shape[:-1], 1)
    if fill is Fill.LEFT:
        return np.asarray(places > row % (width - 1))
    return np.asarray(places == row % width if fill is Fill.SINGLE else (places + row) % 3 != 0)


def _broadcastable(chosen: Array, array: Array) -> Array:
    """Append axes of size 1 until there are as many as `array` has."""
    return chosen.reshape(chosen.shape + (1,) * (array.ndim - chosen.ndim))
