"""Sizes that the declaration allows and that no sample has: large batches, the ends of bounds, and what lies between.

A copy may be right up to a power of two, for even lengths, or short of the last position. Each size is one call at a
small batch. Sizes are left out where a call would need far more memory or time than those to the samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..signature import Bounds, TensorSpec, batch_axis, bounds_of
from .sizes import bounds_within, count_elements, most_elements, stride_of

Alternatives: TypeAlias = tuple[int, ...]  # sizes of one axis, of which the first that has an answer is asked

FAR_SAMPLES = 2  # in a probe of another size: two tell whether answers vary
_FAR = (65, 33, 17)  # one beyond a power of two
_FARTHER = (128, 257)  # of an axis without an upper end, each where there is room
_LARGE = (1025, 513, 257, 129, *_FAR)  # in place of an upper end that there is no room for
_CALL_S = 2.0  # that a call may take, as far as the usual one tells
_END_S = 10.0  # the same for an end that was declared
_END_ELEMENTS = 2_000_000  # 8 MB of floats


@dataclass(frozen=True)
class Room:
    """How large a call may be, beside the usual one of the sizes `usual`, which took `call_s` seconds."""

    specs: Sequence[TensorSpec]
    usual: Mapping[str, int]
    call_s: float
    times: int = 1  # as many elements as usual

    def has(self, sizes: Mapping[str, int]) -> bool:
        """Return whether a call at these sizes is expected to take neither much memory nor much time."""
        elements = count_elements(self.specs, {**self.usual, **sizes})
        bounds = bounds_of(self.specs)
        at_end = any(axis in bounds and bounds[axis].high == size for axis, size in sizes.items())
        most, most_s = self.times * most_elements(self.specs), _END_S if at_end else _CALL_S
        most = max(most, _END_ELEMENTS) if at_end else most
        expected_s = self.call_s * elements / max(1, count_elements(self.specs, self.usual))
        return elements <= most and expected_s <= most_s


def far_batches(specs: Sequence[TensorSpec], batches: Sequence[int]) -> list[Alternatives]:
    """List the batches to ask beyond those that were: the upper end of the bounds, and one beyond a power of two."""
    axis = batch_axis(specs)
    if axis is None:
        return []
    bounds, most = bounds_within(specs, axis), max(batches)
    return [*_upper_end(bounds, most), *_large(bounds, most)]


def far_sizes_of(specs: Sequence[TensorSpec], axis: str, own: int) -> list[Alternatives]:
    """List the sizes to ask of another axis, which has the size `own` in the samples.
    Bounds are asked at both ends, in the middle, and beside each: odd and even sizes. An axis without an upper end is
    asked beyond every power of two up to the largest that there is room for."""
    bounds = bounds_within(specs, axis)
    if bounds.high is None:
        large = _large(bounds, own)
        most = max((own, *(sizes[0] for sizes in large)))
        farther = [(size,) for size in _in_strides(bounds, _FARTHER) if size > most]
        largest = tuple(size for size in _in_strides(bounds, _LARGE) if size > max(most, *_FARTHER))
        return [*large, *farther, *([largest] if largest else [])]
    middle = bounds.nearest((bounds.low + bounds.high) // 2)
    step = bounds.step
    between = (bounds.high - step, middle + step, middle, bounds.filled.low + step)
    return [*_upper_end(bounds, own), *((bounds.nearest(size),) for size in between)]


def _upper_end(bounds: Bounds, most: int) -> list[Alternatives]:
    """Return the upper end, and what is asked in its place where there is no room for it."""
    if bounds.high is None or bounds.high <= most:
        return []
    return [(bounds.high, *(size for size in _stepped(bounds, _LARGE) if most < size < bounds.high))]


def _large(bounds: Bounds, most: int) -> list[Alternatives]:
    stride = stride_of(bounds)
    sizes = _FAR if stride == 1 else (bounds.low + 3 * stride,)
    larger = tuple(size for size in _stepped(bounds, sizes) if size > most)
    return [larger] if larger else []


def _in_strides(bounds: Bounds, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes that bounds allow, as multiples of the lower end where a model may take these alone."""
    stride = stride_of(bounds)
    return _stepped(bounds, sizes if stride == 1 else tuple(size - size % stride for size in sizes))


def _stepped(bounds: Bounds, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes that bounds allow; where these have a step, the nearest to each."""
    near = sizes if bounds.step == 1 else dict.fromkeys(map(bounds.nearest, sizes))
    return tuple(size for size in near if size in bounds)
