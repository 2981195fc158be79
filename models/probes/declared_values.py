"""Rows of values that a declaration allows, whatever the samples hold: from end to end of each range.

Samples of the user may hold a part of it: ids up to 29 where the model has a table of 100. Inputs without a declared
range keep the values of the samples, from the start again where there are more rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from ..dataset import Dataset
from ..signature import Array, TensorSpec, ValueRange
from .feeds import axis_sizes_in
from .stress_values import walk
from .value_range import AxisRange, Values

_FLOAT_ROWS = 48  # for floats, whose numbers between the ends have no count
_MOST_ROWS = 2048
_MOST_BYTES = 8 << 20  # of all inputs
_GOLDEN = 0.618033988749895  # multiples of it, without their whole part, spread evenly however many there are
_BAND = 0.1  # of a range: as far apart the numbers of a row lie that is all low, all high, or in between


def declared_rows(specs: Sequence[TensorSpec], data: Dataset, most: int = _MOST_ROWS) -> Dataset | None:
    """Return rows that go through the declared range of every input; None where none is declared.
    Integers come one after another, so that each is there where `most` rows have room for it, the two ends first. Of
    floats a third of the rows is spread over the range, a third lies close together at a level of its own, and a third
    is the samples, stretched to both ends. They are worked out, not drawn: every interpreter makes the same."""
    ranges = declared_ranges(specs, data)
    if not ranges:
        return None
    row_bytes = sum(array[:1].nbytes for array in data.inputs.values())
    wanted = max(_rows_wanted(data.inputs[name], limits) for name, limits in ranges.items())
    count = max(1, min(wanted, most, _MOST_ROWS, _MOST_BYTES // max(1, row_bytes)))
    repeated = {name: array[np.arange(count) % len(data)] for name, array in data.inputs.items()}
    spread = {name: _spread(repeated[name], limits, name) for name, limits in ranges.items()}
    return Dataset({**repeated, **spread})


def declared_ranges(specs: Sequence[TensorSpec], data: Dataset) -> dict[str, ValueRange]:
    """Return the declared range of each input that has one, at the sizes of the data."""
    sizes = axis_sizes_in(data, specs)
    return {spec.name: _at(spec.values, sizes) for spec in specs if spec.values is not None}


def _at(values: Values, sizes: Mapping[str, int]) -> ValueRange:
    return values.at(sizes) if isinstance(values, AxisRange) else values


def _rows_wanted(array: Array, limits: ValueRange) -> int:
    if array.dtype.kind == "f":
        return _FLOAT_ROWS
    return -(-int(limits.high - limits.low + 1) // max(1, int(array[0].size)))


def _spread(samples: Array, limits: ValueRange, name: str) -> Array:
    """Return rows like the samples that go through the range."""
    shift = zlib.crc32(name.encode())
    if samples.dtype.kind in "iu":
        # Inputs of one range begin at other rows, or they would hold the same numbers in every call.
        return np.roll(walk(samples, int(limits.low), int(limits.high)), shift % len(samples), axis=0)
    low, high = limits
    at = np.arange(samples.size, dtype=np.float64).reshape(samples.shape)
    unit = ((at + shift % 1024) * _GOLDEN) % 1.0
    unit.reshape(-1)[:2] = (1.0, 0.0)[: unit.size]
    row = np.arange(len(samples)).reshape(-1, *[1] * (samples.ndim - 1))
    level = (row * _GOLDEN) % 1.0 * (1.0 - _BAND)
    level = np.where(row % 6 == 1, np.where(row % 12 == 1, 0.0, 1.0 - _BAND), level)  # at the very ends by turns
    unit = np.where(row % 3 == 1, level + _BAND * unit, unit)
    return np.asarray(np.where(row % 3 == 2, _stretched(samples, low, high), low + unit * (high - low)), samples.dtype)


def _stretched(samples: Array, low: float, high: float) -> Array:
    """Return the samples with their least number at `low` and their largest at `high`."""
    finite = np.nan_to_num(samples.astype(np.float64), nan=low, posinf=high, neginf=low)
    least, most = float(finite.min(initial=high)), float(finite.max(initial=low))
    return np.clip(low + (finite - least) * ((high - low) / max(most - least, 1e-300)), low, high)
