"""Parts of a tensor by position."""

from __future__ import annotations

from collections.abc import Sequence

from ..lazy import tf
from ..reader import Op
from ..registry import ANY, INDICES, lowers
from ..values import Size, Value, computed


@lowers("Slice", since=10, T=ANY, Tind=INDICES)
def slice_by_inputs(op: Op) -> Value:
    """From start to end - 1 by steps along each of the axes; the first ones where none are named."""
    starts, ends = op.sizes(1, "starts"), op.sizes(2, "ends")
    axes = range(len(starts)) if op.optional(3) is None else op.integers(3, "axes")
    steps = [1] * len(starts) if op.optional(4) is None else op.integers(4, "steps")
    return _sliced(op, starts, ends, list(axes), list(steps))


@lowers("Slice", since=1, until=9, T=ANY)
def slice_by_attributes(op: Op) -> Value:
    """Before opset 10 all of it was attributes, and the step always 1."""
    starts, ends = op.ints("starts"), op.ints("ends")
    return _sliced(op, starts, ends, op.ints("axes", range(len(starts))), [1] * len(starts))


def _sliced(op: Op, starts: Sequence[Size], ends: Sequence[Size], axes: list[int], steps: list[int]) -> Value:
    value = op.value(0)
    if value.parts is not None and isinstance(starts[0], int) and isinstance(ends[0], int):
        begin, end = bounds(starts[0], ends[0], steps[0], len(value.parts))
        return op.sized(value.parts[slice(begin, end, steps[0])], dtype=value.dtype)
    cut = [slice(None)] * value.rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cut[value.place(axis % value.rank)] = _cut(start, end, step, value.shape[axis])
    native = value.tensor(value.layout)
    return computed(native[tuple(cut)], value.layout, non_negative=value.non_negative)


def bounds(start: int, end: int, step: int, length: int) -> tuple[int, int | None]:
    """Start and end cut to the axis as the specification words it; an end of None lies before the first element."""
    start += length if start < 0 else 0
    end += length if end < 0 else 0
    if step > 0:
        return min(max(start, 0), length), min(max(end, 0), length)
    end = min(max(end, -1), length - 1)
    return min(max(start, 0), length - 1), None if end < 0 else end


_FAR = 2**31 - 1  # exporters write the largest integers for "to the end"


def _cut(start: Size, end: Size, step: int, length: int | None) -> slice:
    if isinstance(start, int) and isinstance(end, int) and length is not None:
        begin, stop = bounds(start, end, step, length)
        return slice(begin, stop, step)
    first = None if isinstance(start, int) and abs(start) >= _FAR else start
    last = None if isinstance(end, int) and abs(end) >= _FAR else end
    return slice(_int32(first), _int32(last), step)


def _int32(size: Size) -> Size:
    return size if size is None or isinstance(size, int) else tf.cast(size, tf.int32)
