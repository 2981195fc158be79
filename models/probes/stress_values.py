"""Numbers that the samples do not hold: integers below zero and of every size that a model takes, and floats with
other last bits. Needs numpy only.

Random samples hold 0 to 3, for they may be indices. What a copy does wrongly below or beyond that (a division that
rounds to zero, a number that no longer fits 32 bits) is seen with these, at those sizes at which the model itself
answers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..dataset import Dataset
from ..loading.build import is_told
from ..signature import Array, TensorSpec

_TOP, _BOTTOM = 0, 1  # of four integers, one has as many bits as it may have above zero, and one below
FLOAT_BITS = 24  # that float32 holds


class Reach(NamedTuple):
    """How large the integers of an input get: from -(2^below - 1) to 2^above - 1. `below` 0: none is negative."""

    below: int
    above: int

    @property
    def bits(self) -> int:
        """Of the largest, whatever its sign."""
        return max(self.below, self.above)

    def __str__(self) -> str:
        if not self.below:
            return f"up to {_number(self.above)}"
        if self.below == self.above:
            return f"within ±{_number(self.above)}"
        return f"from -{_number(self.below)} to {_number(self.above)}"


SAMPLED = Reach(0, 2)  # what random samples hold


def _number(bits: int) -> str:
    return str(2**bits - 1) if bits <= 20 else f"2^{bits}"


def free_integers(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The inputs whose integers may be others than the samples hold. Bytes are not: random ones are all that a byte can
    be; nor is a mask, whose name tells what it holds."""
    return tuple(spec for spec in specs if _bits(spec.dtype) > 8 and not is_told(spec.name))


def widest(dtype: str) -> Reach:
    """As far as integers of a dtype are tried: all of it. Of 64 bits a bit less, so that two of them can be added."""
    bits = min(62, _bits(dtype) - (np.dtype(dtype).kind == "i"))
    return Reach(bits if np.dtype(dtype).kind == "i" else 0, bits)


def _bits(dtype: str) -> int:
    """Of an integer dtype; 0 of any other."""
    integer = dtype.removeprefix("u").startswith("int")
    return int(np.dtype(dtype).itemsize * 8) if integer and not dtype.endswith("int4") else 0


def with_numbers(data: Dataset, reaches: Mapping[str, Reach]) -> Dataset:
    """The samples with other integers in the inputs named. All sizes come about as often (by their bits), the largest
    more often: the first two of an input are the largest and the least. Of two inputs alike some large ones differ by
    one: what compares them in float32 is right of all others. What goes no further than the samples do keeps those:
    they may be lengths, of which none is 0."""
    wide = {
        name: _numbers(like, reaches[name], name)
        for name, like in data.inputs.items()
        if reaches.get(name, SAMPLED) != SAMPLED
    }
    first: dict[tuple[object, ...], Array] = {}
    for name, own in wide.items():
        wide[name] = _near(first.setdefault((own.dtype, *own.shape), own), own, reaches[name])
    return Dataset({**data.inputs, **wide}, data.labels)


def with_ones(data: Dataset, names: Iterable[str]) -> Dataset:
    """The samples with ones in the inputs named."""
    return Dataset({**data.inputs, **{name: np.ones_like(data.inputs[name]) for name in names}}, data.labels)


def as_floats(data: Dataset, names: Iterable[str]) -> Dataset:
    """The samples with the integers of the inputs named as float32 holds them: of 24 bits."""
    rounded = {name: data.inputs[name].astype(np.float32).astype(data.inputs[name].dtype) for name in names}
    return Dataset({**data.inputs, **rounded}, data.labels)


def with_other_last_bits(data: Dataset) -> Dataset:
    """The samples with the next float in place of about half of them. Further from zero: whole numbers that are floats
    stay what they are where a model cuts them off, and zeros are left alone."""
    floats = {name: each for name, each in data.inputs.items() if each.dtype.kind == "f"}
    return Dataset({**data.inputs, **{name: _nudged(each) for name, each in floats.items()}}, data.labels)


def _nudged(floats: Array) -> Array:
    chosen = _mixed(np.arange(floats.size, dtype=np.uint64)).reshape(floats.shape) % 2 == 1
    further = np.nextafter(floats, np.copysign(np.inf, floats).astype(floats.dtype))
    return np.asarray(np.where(chosen & (floats != 0), further, floats))


def _numbers(like: Array, reach: Reach, name: str) -> Array:
    """Integers of the shape and dtype of `like`. They are worked out and not drawn: the reference and its copies run in
    several interpreters, and another numpy would draw others."""
    where = np.arange(like.size, dtype=np.uint64) + (zlib.crc32(name.encode()) << 32)
    kind, choice, low = (_mixed(where * 3 + at) for at in range(3))
    kind = kind % 4
    kind[:2] = (_TOP, _BOTTOM)[: kind.size]
    negative = ((kind == _BOTTOM) | ((kind > _BOTTOM) & (choice % 2 == 1))) & (reach.below > 0)
    most = np.where(negative, reach.below, reach.above).astype(np.uint64)
    bits = np.where(kind <= _BOTTOM, most, (choice >> 1) % (most + 1))
    top = np.where(bits > 0, 1 << (np.maximum(bits, 1) - 1), 0)
    sizes = (top | (low % np.maximum(top, 1))).astype(np.int64)
    sizes[:2] = (1 << most[:2]) - 1  # the ends themselves, for they are named: a table of 60 rows has no "up to 63"
    return np.asarray(np.where(negative, -sizes, sizes).astype(like.dtype).reshape(like.shape))


def _near(other: Array, own: Array, reach: Reach) -> Array:
    """`own`, and by turns 1 more and 1 less than `other` in every second place where that has more bits than float32
    holds, where it is within the reach."""
    if other is own:
        return own
    large = np.flatnonzero(np.abs(other.astype(np.int64)) >> FLOAT_BITS)
    places = large[large > 1][::2]  # the first two are the ends
    there = other.ravel()[places].astype(np.int64) + np.where(np.arange(places.size) % 2 == 0, 1, -1)
    fits = (there > -(1 << reach.below)) & (there < 1 << reach.above)
    near = own.copy()
    near.flat[places[fits]] = there[fits]
    return near


def _mixed(numbers: Array) -> Array:
    """SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): a number of 64 bits that
    looks random for each of 0, 1, 2 and so on."""
    mixed = (numbers + 1) * 0x9E3779B97F4A7C15
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB
    return np.asarray(mixed ^ (mixed >> 31))
