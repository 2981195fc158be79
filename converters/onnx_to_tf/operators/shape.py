"""Shapes read and changed. What is known of a shape stays known: see `Value.parts`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..lazy import tf
from ..reader import Op
from ..registry import ANY, lowers
from ..values import Layout, Size, Value, broadcast_size, computed, pack, product, reshape, transpose


@lowers("Shape", since=1, until=14, T=ANY)
def shape(op: Op) -> Value:
    """The sizes of all axes."""
    value = op.value(0)
    return op.sized([value.size(axis) for axis in range(value.rank)])


@lowers("Shape", since=15, T=ANY)
def shape_between(op: Op) -> Value:
    """The sizes of the axes start .. end - 1, both cut to the rank as Python does."""
    value = op.value(0)
    start, end = op.integer("start", 0), op.integer("end", value.rank)
    return op.sized([value.size(axis) for axis in range(value.rank)][start:end])


@lowers("Size", since=1, T=ANY)
def size(op: Op) -> Value:
    """The number of elements."""
    value = op.value(0)
    return op.sized([product([value.size(axis) for axis in range(value.rank)])], scalar=True)


@lowers("Reshape", since=5, T=ANY)
def reshape_to(op: Op) -> Value:
    """0 keeps the size of that axis (unless allowzero), -1 takes what is left."""
    value, wanted, literal_zero = op.value(0), op.sizes(1, "shape"), op.flag("allowzero")
    target = [
        value.size(at) if isinstance(part, int) and part == 0 and not literal_zero else part
        for at, part in enumerate(wanted)
    ]
    return reshaped(value, _resolved(value, target))


def _resolved(value: Value, target: list[Size]) -> list[Size]:
    """The size that -1 stands for, where the known sizes tell it: those that are the same on both sides cancel."""
    gap = next((at for at, part in enumerate(target) if isinstance(part, int) and part == -1), None)
    if gap is None:
        return target
    have: list[Size] = [value.size(axis) for axis in range(value.rank)]
    rest = [part for at, part in enumerate(target) if at != gap]
    for part in [part for part in rest if not isinstance(part, int)]:
        same = next((at for at, each in enumerate(have) if each is part), None)
        if same is not None:
            del have[same]
            rest = [each for each in rest if each is not part]
    if all(isinstance(part, int) for part in (*have, *rest)) and prod(rest) > 0:
        return [*target[:gap], prod(have) // prod(rest), *target[gap + 1 :]]
    return target


def reshaped(value: Value, target: Sequence[Size]) -> Value:
    """The value in another shape. Channels stay last where only the spatial axes are merged or split."""
    if value.layout is Layout.CHANNELS_LAST and _keeps_channels(value, target):
        physical = [target[0], *target[2:], target[1]]
        return computed(reshape(value.native, physical), Layout.CHANNELS_LAST)
    answer = computed(reshape(value.tensor(), target))
    answer.non_negative = value.non_negative
    return answer


def _keeps_channels(value: Value, target: Sequence[Size]) -> bool:
    """Whether axis 1 stays what it is and the spatial axes before and after hold equally many elements: then so
    does axis 0."""
    spatial, wanted = value.shape[2:], target[2:]
    return (
        len(target) > 2
        and value.shape[1] == target[1]
        and None not in spatial
        and all(isinstance(part, int) and part > 0 for part in wanted)
        and prod(part or 0 for part in spatial) == prod(wanted)
    )


@lowers("Flatten", since=1, T=ANY)
def flatten(op: Op) -> Value:
    """Into a matrix: the axes before `axis`, and the others."""
    value, axis = op.value(0), op.integer("axis", 1)
    have = [value.size(each) for each in range(value.rank)]
    axis += value.rank if axis < 0 else 0
    return reshaped(value, [product(have[:axis]), product(have[axis:])])


@lowers("Squeeze", since=13, T=ANY)
def squeeze(op: Op) -> Value:
    """Without the axes named, which have size 1; without every such axis where none is named."""
    return _squeezed(op, None if op.optional(1) is None else list(op.integers(1, "axes")))


@lowers("Squeeze", since=1, until=12, T=ANY)
def squeeze_by_attribute(op: Op) -> Value:
    """Before opset 13 the axes were an attribute."""
    return _squeezed(op, op.ints("axes") if op.has("axes") else None)


def _squeezed(op: Op, axes: list[int] | None) -> Value:
    value = op.value(0)
    if axes is None and None in value.shape:
        op.refuse("which axes have size 1 is known only when the model runs", fix="name the axes to squeeze")
    dropped = (
        {axis for axis, size in enumerate(value.shape) if size == 1}
        if axes is None
        else {axis % value.rank for axis in axes}
    )
    if any(value.shape[axis] not in (1, None) for axis in dropped):
        op.refuse(f"it squeezes the axes {sorted(dropped)} of the shape {value.shape}", fix="check the model")
    if value.parts is not None:
        return op.sized(value.parts, scalar=bool(dropped), dtype=value.dtype)
    return reshaped(value, [value.size(axis) for axis in range(value.rank) if axis not in dropped])


@lowers("Unsqueeze", since=13, T=ANY)
def unsqueeze(op: Op) -> Value:
    """With axes of size 1 at these places of the answer."""
    return _unsqueezed(op, list(op.integers(1, "axes")))


@lowers("Unsqueeze", since=1, until=12, T=ANY)
def unsqueeze_by_attribute(op: Op) -> Value:
    """Before opset 13 the axes were an attribute."""
    return _unsqueezed(op, op.ints("axes"))


def _unsqueezed(op: Op, axes: list[int]) -> Value:
    value = op.value(0)
    rank = value.rank + len(axes)
    added = {axis % rank for axis in axes}
    if value.rank == 0 and len(added) == 1:
        parts = value.size_parts()
        if parts is not None and value.dtype in ("int32", "int64"):
            return op.sized(parts, dtype=value.dtype)
    have = iter([value.size(axis) for axis in range(value.rank)])
    return reshaped(value, [1 if at in added else next(have) for at in range(rank)])


@lowers("Transpose", since=1, T=ANY)
def transpose_axes(op: Op) -> Value:
    """Axes in another order. What only says "channels last" or takes it back moves nothing."""
    value = op.value(0)
    order = op.ints("perm", range(value.rank)[::-1])
    if value.array is not None:
        return op.known(value.array.transpose(order))
    if value.rank < 2:
        return value
    native = value.tensor(value.layout)
    physical = [value.layout.place(axis, value.rank) for axis in order]  # of the answer's logical axes
    if physical == list(range(value.rank)):
        return computed(native)
    last = [physical[axis] for axis in Layout.CHANNELS_LAST.order(value.rank)]
    if last == list(range(value.rank)):
        return computed(native, Layout.CHANNELS_LAST)
    return computed(transpose(native, physical))


@lowers("Expand", since=8, T=ANY)
def expand(op: Op) -> Value:
    """Broadcast to a shape; an axis of the value that is not 1 wins over a 1 in the shape."""
    value, wanted = op.value(0), op.sizes(1, "shape")
    rank = max(value.rank, len(wanted))
    have: list[Size] = [1] * (rank - value.rank) + [value.size(axis) for axis in range(value.rank)]
    target = [broadcast_size(a, b) for a, b in zip(have, [1] * (rank - len(wanted)) + list(wanted), strict=True)]
    if len(target) == value.rank and all(_same(a, b) for a, b in zip(have, target, strict=True)):
        return value
    return computed(tf.broadcast_to(value.tensor(), pack(target)))


def _same(a: Size, b: Size) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


@lowers("Tile", since=6, T=ANY, T1=frozenset({"int64"}))
def tile(op: Op) -> Value:
    """The value repeated along each axis."""
    return computed(tf.tile(op.tensor(0), pack(op.sizes(1, "repeats"))))


@lowers("Concat", since=4, T=ANY)
def concat(op: Op) -> Value:
    """Joined along an axis; channels stay last where one of the values has them so."""
    values, axis = op.values(), op.integer("axis")
    if any(value.parts is not None for value in values):
        joined = [value.size_parts() for value in values]
        if all(parts is not None for parts in joined):
            return op.sized([part for parts in joined for part in parts or ()], dtype=values[0].dtype)
    rank = values[0].rank
    last = any(value.layout is Layout.CHANNELS_LAST for value in values)
    layout = Layout.CHANNELS_LAST if last else Layout.LOGICAL
    place = layout.place(axis % rank, rank)
    answer = computed(tf.concat([value.tensor(layout) for value in values], place), layout)
    answer.non_negative = all(value.non_negative for value in values)
    return answer


@lowers("Split", since=18, T=ANY)
def split_evenly_or_by_input(op: Op) -> list[Value]:
    """By sizes, or into num_outputs equal parts of which the last may be smaller."""
    if op.optional(1) is not None:
        return _split(op, list(op.integers(1, "split")))
    return _split(op, None, op.integer("num_outputs"))


@lowers("Split", since=13, until=17, T=ANY)
def split_by_input(op: Op) -> list[Value]:
    """By sizes, or into equal parts, one for each output."""
    return _split(op, None if op.optional(1) is None else list(op.integers(1, "split")))


@lowers("Split", since=2, until=12, T=ANY)
def split_by_attribute(op: Op) -> list[Value]:
    """Before opset 13 the sizes were an attribute."""
    return _split(op, op.ints("split") if op.has("split") else None)


def _split(op: Op, parts: list[int] | None, count: int | None = None) -> list[Value]:
    value = op.value(0)
    axis = op.integer("axis", 0) % value.rank
    if parts is None:
        whole, count = value.shape[axis], count or op.outputs
        if whole is None:
            op.refuse("it splits an axis whose size is known only when the model runs", fix="give it the sizes")
        step = -(-whole // count)
        parts = [min(step, whole - step * at) for at in range(count)]
    pieces = tf.split(value.tensor(value.layout), parts, value.place(axis))
    return [computed(piece, value.layout, non_negative=value.non_negative) for piece in pieces]
