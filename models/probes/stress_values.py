"""Numbers that the samples do not hold: negative and large integers, and floats with other last bits.

Random samples hold 0 to 3, for they may be indices. These show what a copy does wrongly below or beyond that, as far as
the model itself answers: a division that rounds to zero, a number that no longer fits 32 bits.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..dataset import Dataset
from ..signature import Array, TensorSpec
from .random_inputs import has_telling_name

_TOP, _BOTTOM = 0, 1  # of four integers, one is as large and one as far below zero as the range allows
FLOAT_BITS = 24  # that float32 holds
_TABLE_BITS = 21  # of the number of rows that a table has at most
_GOLDEN = 0.618  # of a range: steps of about this size spread evenly over it
_SHOWN = 4  # names in a sentence


class IntegerRange(NamedTuple):
    """How large the integers of an input get, in bits: from -(2^below - 1) to 2^above - 1, none negative where `below`
    is 0. `least` and `most` are the ends themselves where they are known to the last integer, as those of a table."""

    below: int
    above: int
    least: int | None = None
    most: int | None = None

    @property
    def bits(self) -> int:
        """Of the largest, whatever its sign."""
        return max(self.below, self.above)

    @property
    def has_end(self) -> bool:
        """Whether an end is known to the last integer: the model refuses the next one, as an index into a table."""
        return self.least is not None or self.most is not None

    @property
    def is_table(self) -> bool:
        """Whether it is so small that each integer can be asked, with an end that is known to the last one."""
        return self.has_end and self.bits <= _TABLE_BITS

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest integer."""
        least = 1 - 2**self.below if self.least is None else self.least
        return least, 2**self.above - 1 if self.most is None else self.most

    def __str__(self) -> str:
        least, most = self.ends
        if not least:
            return f"up to {_number(most)}"
        if least == -most:
            return f"within ±{_number(most)}"
        return f"from -{_number(-least)} to {_number(most)}"


SAMPLED = IntegerRange(0, 2)  # of random samples


def _number(size: int) -> str:
    return str(size) if size < 1 << 20 else f"2^{size.bit_length()}"


def describe_ranges(ranges: Mapping[str, IntegerRange]) -> str:
    """Say which input is asked with which integers: "ids up to 1023 and x, y within ±2^31"."""
    names: dict[IntegerRange, list[str]] = {}
    for name, integer_range in ranges.items():
        names.setdefault(integer_range, []).append(name)
    return " and ".join(f"{_listed(inputs)} {integer_range}" for integer_range, inputs in names.items())


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _SHOWN
    return ", ".join(words[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def free_integers(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Return the inputs whose integers may be others than the samples hold.
    Bytes may not: random ones are all that a byte can be. Nor may a mask, whose name tells its values, nor an input
    whose values are declared."""
    free = (spec for spec in specs if _bits(spec.dtype) > 8 and spec.values is None)
    return tuple(spec for spec in free if not has_telling_name(spec.name))


def dtype_range(dtype: str) -> IntegerRange:
    """Return the whole range of an integer dtype; of 64 bits a bit less, so that two integers can be added."""
    bits = min(62, _bits(dtype) - (np.dtype(dtype).kind == "i"))
    return IntegerRange(bits if np.dtype(dtype).kind == "i" else 0, bits)


def _bits(dtype: str) -> int:
    """Return the bits of an integer dtype; 0 of any other."""
    integer = dtype.removeprefix("u").startswith("int")
    return int(np.dtype(dtype).itemsize * 8) if integer and not dtype.endswith("int4") else 0


def with_integers(data: Dataset, ranges: Mapping[str, IntegerRange]) -> Dataset:
    """Replace the integers of the named inputs.
    All sizes come about as often (by their bits), the largest more often; the first two of an input are the largest and
    the least. Of two inputs alike some large integers differ by one: a copy that compares them in float32 is right
    about all others. An input whose range is that of the samples keeps its values: they may be lengths, of which none
    is 0."""
    wide = {
        name: _work_out_integers(like, ranges[name], name)
        for name, like in data.inputs.items()
        if ranges.get(name, SAMPLED) != SAMPLED
    }
    first: dict[tuple[object, ...], Array] = {}
    for name, own in wide.items():
        wide[name] = _near_misses(first.setdefault((own.dtype, *own.shape), own), own, ranges[name])
    return Dataset({**data.inputs, **wide}, data.labels)


def with_float32_integers(data: Dataset, names: Iterable[str]) -> Dataset:
    """Round the integers of the named inputs as float32 does, to 24 bits."""
    rounded = {name: data.inputs[name].astype(np.float32).astype(data.inputs[name].dtype) for name in names}
    return Dataset({**data.inputs, **rounded}, data.labels)


def with_other_last_bits(data: Dataset) -> Dataset:
    """Replace about half of the floats by the next one further from zero.
    Whole numbers that are floats then stay what they are where a model cuts them off. Zeros are left alone."""
    floats = {name: array for name, array in data.inputs.items() if array.dtype.kind == "f"}
    return Dataset({**data.inputs, **{name: _nudge(array) for name, array in floats.items()}}, data.labels)


def _nudge(floats: Array) -> Array:
    chosen = _mix(np.arange(floats.size, dtype=np.uint64)).reshape(floats.shape) % 2 == 1
    further = np.nextafter(floats, np.copysign(np.inf, floats).astype(floats.dtype))
    return np.asarray(np.where(chosen & (floats != 0), further, floats))


def _work_out_integers(like: Array, integer_range: IntegerRange, name: str) -> Array:
    """Work out integers of the shape and dtype of `like`.
    They are not drawn: the reference and its copies run in several interpreters, and another numpy would draw others.
    """
    if integer_range.is_table:
        return walk(like, *integer_range.ends)
    where = np.arange(like.size, dtype=np.uint64) + (zlib.crc32(name.encode()) << 32)
    kind, choice, low = (_mix(where * 3 + at) for at in range(3))
    kind = kind % 4
    kind[:2] = (_TOP, _BOTTOM)[: kind.size]
    negative = ((kind == _BOTTOM) | ((kind > _BOTTOM) & (choice % 2 == 1))) & (integer_range.below > 0)
    most = np.where(negative, integer_range.below, integer_range.above).astype(np.uint64)
    bits = np.where(kind <= _BOTTOM, most, (choice >> 1) % (most + 1))
    top = np.where(bits > 0, 1 << (np.maximum(bits, 1) - 1), 0)
    sizes = (top | (low % np.maximum(top, 1))).astype(np.int64)
    sizes[:2] = (1 << most[:2]) - 1  # the ends themselves, for messages name them: a table of 60 rows has no "up to 63"
    integers = np.clip(np.where(negative, -sizes, sizes), *integer_range.ends)
    return np.asarray(integers.astype(like.dtype).reshape(like.shape))


def walk(like: Array, least: int, most: int) -> Array:
    """Step through a range that is known to the last integer, so that each comes once before any comes again.
    The two ends come first."""
    between = max(1, most - least - 1)
    step = next(step for step in range(int(_GOLDEN * between) + 1, 2 * between + 2) if math.gcd(step, between) == 1)
    steps = (np.arange(like.size, dtype=np.int64) - 2) * step % between + least + 1
    steps[:2] = (most, least)[: steps.size]
    return np.asarray(steps.astype(like.dtype).reshape(like.shape))


def _near_misses(other: Array, own: Array, integer_range: IntegerRange) -> Array:
    """Put by turns 1 more and 1 less than `other` into `own`.
    That is in every second place where `other` has more bits than float32 holds, if the number is within the range."""
    if other is own:
        return own
    large = np.flatnonzero(np.abs(other.astype(np.int64)) >> FLOAT_BITS)
    places = large[large > 1][::2]  # the first two are the ends
    there = other.ravel()[places].astype(np.int64) + np.where(np.arange(places.size) % 2 == 0, 1, -1)
    fits = (there > -(1 << integer_range.below)) & (there < 1 << integer_range.above)
    near = own.copy()
    near.flat[places[fits]] = there[fits]
    return near


def _mix(numbers: Array) -> Array:
    """Return a number of 64 bits that looks random for each of 0, 1, 2 and so on.
    SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014."""
    mixed = (numbers + 1) * 0x9E3779B97F4A7C15
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB
    return np.asarray(mixed ^ (mixed >> 31))
