"""Shapes read and changed. What is known of a shape stays known: see `Value.parts`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....onnx_graph.semantics.axis_lists import squeezed_axes, unsqueezed_axes
from ...lazy_tensorflow import tf
from ...lowerings import ANY, lowers
from ...operator_context import OperatorContext
from ...values import (
    Layout,
    Size,
    TfTensor,
    Value,
    as_int32,
    broadcast_size,
    computed,
    is_same_size,
    pack_sizes,
    product,
    reshape,
    transpose,
)


@lowers("Shape", since=1, T=ANY)
def shape(op: OperatorContext) -> Value:
    """Lower Shape: sizes start .. end - 1, both cut to the rank as Python does; before opset 15 of all axes."""
    value = op.value(0)
    sizes = [value.size(axis) for axis in range(value.rank)]
    return op.sized(sizes[op.integer("start", 0) : op.integer("end", value.rank)])


@lowers("Size", since=1, T=ANY)
def size(op: OperatorContext) -> Value:
    """Lower Size: the number of elements."""
    value = op.value(0)
    return op.sized([product([value.size(axis) for axis in range(value.rank)])], scalar=True)


@lowers("Reshape", since=5, T=ANY)
def reshape_to(op: OperatorContext) -> Value:
    """Lower Reshape: 0 keeps the size of that axis (unless allowzero), -1 is the rest."""
    value, wanted, literal_zero = op.value(0), op.sizes(1, "shape"), op.flag("allowzero")
    if value.only_parts is not None and len(wanted) < 2:
        return op.sized(value.only_parts, scalar=not wanted, dtype=value.dtype)
    target = list(wanted) if literal_zero else _keep_zeros(value, wanted)
    return reshape_value(value, _resolve_gap(value, target)).with_parts_of(value)


def _keep_zeros(value: Value, wanted: Sequence[Size]) -> list[Size]:
    """Return the shape with each 0 replaced by the value's own size of that axis.

    Tensors are compared with 0 when the model runs, except where there is but one, which then is the rest that the
    others leave.
    """
    computed_ones = sum(not isinstance(part, int) for part in wanted)

    def size_at(at: int, part: Size) -> Size:
        if isinstance(part, int):
            return value.size(at) if part == 0 else part
        old_size = value.size(at) if at < value.rank else part
        alone = computed_ones == 1 and all(
            isinstance(other, int) and other > 0 for other in wanted if other is not part
        )
        return part if old_size is part or alone else tf.where(tf.equal(part, 0), old_size, part)

    return [size_at(at, part) for at, part in enumerate(wanted)]


def _resolve_gap(value: Value, target: list[Size]) -> list[Size]:
    """Return the target with the size for -1, where the known sizes determine it: equal ones cancel."""
    gap = next((at for at, part in enumerate(target) if isinstance(part, int) and part == -1), None)
    if gap is None:
        return target
    sizes: list[Size] = [value.size(axis) for axis in range(value.rank)]
    divisors: list[Size] = []
    for part in target[:gap] + target[gap + 1 :]:
        same = next((at for at, size in enumerate(sizes) if size is part and not isinstance(part, int)), None)
        if same is None:
            divisors.append(part)
        else:
            del sizes[same]
    if all(isinstance(part, int) for part in (*sizes, *divisors)) and prod(divisors) > 0:
        return [*target[:gap], prod(sizes) // prod(divisors), *target[gap + 1 :]]
    return target


def reshape_value(value: Value, target: Sequence[Size]) -> Value:
    """Reshape a value. Channels stay last where only the spatial axes are merged or split."""
    if len(target) == value.rank and all(is_same_size(value.size(axis), part) for axis, part in enumerate(target)):
        return value
    if value.layout is Layout.CHANNELS_LAST and _keeps_channels(value, target):
        physical = [target[0], *target[2:], target[1]]
        return computed(reshape(value.native, physical), Layout.CHANNELS_LAST).with_sizes(target)
    return computed(reshape(value.tensor(), target), non_negative=value.non_negative).with_sizes(target)


def _keeps_channels(value: Value, target: Sequence[Size]) -> bool:
    """Return whether axis 1 stays and the spatial axes hold as many elements as before; then axis 0 stays too."""
    spatial, wanted = value.shape[2:], target[2:]
    return (
        len(target) > 2
        and is_same_size(value.shape[1], target[1])
        and None not in spatial
        and all(isinstance(part, int) and part > 0 for part in wanted)
        and prod(part or 0 for part in spatial) == prod(wanted)
    )


@lowers("Flatten", since=1, T=ANY)
def flatten(op: OperatorContext) -> Value:
    """Lower Flatten: a matrix of the axes before `axis`, and the others."""
    value, axis = op.value(0), op.integer("axis", 1)
    sizes = [value.size(other) for other in range(value.rank)]
    axis += value.rank if axis < 0 else 0
    return reshape_value(value, [product(sizes[:axis]), product(sizes[axis:])])


@lowers("Squeeze", since=1, T=ANY)
def squeeze(op: OperatorContext) -> Value:
    """Lower Squeeze: without the axes named, which have size 1; without every such axis where none is named."""
    value, axes = op.value(0), op.optional(1)
    if axes is not None and axes.computing:
        return _squeezed_by_computed(op, axes)
    dropped = squeezed_axes(op)
    if value.only_parts is not None:
        return op.sized(value.only_parts, scalar=bool(dropped), dtype=value.dtype)
    left = [axis for axis in range(value.rank) if axis not in dropped]
    if any(value.shape[axis] is None for axis in dropped):  # TensorFlow sees to it that they have size 1
        return computed(tf.squeeze(value.tensor(), dropped)).with_sizes_of(value, enumerate(left))
    return reshape_value(value, [value.size(axis) for axis in left])


def _squeezed_by_computed(op: OperatorContext, axes: Value) -> Value:
    """Squeeze computed axes: each axis that stays has its place among these; a matrix moves its size there."""
    value, count = op.value(0), length_of(op, axes, "axes")
    stays = 1 - tf.cast(_is_named(axes, value.rank), tf.int32)
    here = tf.equal(tf.cumsum(stays) - 1, tf.range(value.rank - count)[:, None])
    sizes = tf.reduce_sum(tf.cast(here, tf.int32) * stays * tf.shape(value.tensor()), axis=1)
    return computed(tf.reshape(value.tensor(), sizes))


def length_of(op: OperatorContext, vector: Value, role: str) -> int:
    """Return the length of a computed vector (1 for a scalar), which determines the rank of the result."""
    length = vector.shape[0] if vector.rank else 1
    if length is None:
        op.refuse(f"the number of its {role} is known only when the model runs", fix=f"make the {role} constants")
    return length


def _is_named(axes: Value, rank: int) -> TfTensor:
    """Return for each of `rank` axes whether it is one of the computed ones; negative ones count from the end."""
    named = tf.math.floormod(as_int32(tf.reshape(axes.tensor(), [-1])), rank)
    return tf.reduce_any(tf.equal(tf.range(rank)[:, None], named[None, :]), axis=1)


@lowers("Unsqueeze", since=1, T=ANY)
def unsqueeze(op: OperatorContext) -> Value:
    """Lower Unsqueeze: with axes of size 1 at these places of the result."""
    value, axes = op.value(0), op.optional(1)
    if axes is not None and axes.computing:
        return _unsqueezed_by_computed(op, axes)
    added = unsqueezed_axes(op)
    if value.rank == 0 and len(added) == 1:
        parts = value.size_parts(exact=True)
        if parts is not None and value.dtype in ("int32", "int64"):
            return op.sized(parts, dtype=value.dtype)
    sizes = iter([value.size(axis) for axis in range(value.rank)])
    return reshape_value(value, [1 if at in added else next(sizes) for at in range(value.rank + len(added))])


def _unsqueezed_by_computed(op: OperatorContext, axes: Value) -> Value:
    """Insert computed axes: each axis that is not added takes the next size of the value's shape."""
    value = op.value(0)
    added = tf.cast(_is_named(axes, value.rank + length_of(op, axes, "axes")), tf.int32)
    old_axis = tf.maximum(tf.cumsum(1 - added) - 1, 0)
    sizes = tf.gather(tf.concat([tf.shape(value.tensor()), [1]], 0), tf.where(added > 0, value.rank, old_axis))
    return computed(tf.reshape(value.tensor(), sizes))


@lowers("Transpose", since=1, T=ANY)
def transpose_axes(op: OperatorContext) -> Value:
    """Lower Transpose. An order that only says "channels last" or takes it back moves nothing."""
    value = op.value(0)
    order = op.ints("perm", range(value.rank)[::-1])
    if value.array is not None:
        return op.known(value.array.transpose(order))
    if value.rank < 2:
        return value
    native = value.tensor(value.layout)
    physical = [value.layout.place(axis, value.rank) for axis in order]  # of the answer's logical axes
    if physical == list(range(value.rank)):
        moved, layout = native, Layout.LOGICAL
    elif [physical[axis] for axis in Layout.CHANNELS_LAST.order(value.rank)] == list(range(value.rank)):
        moved, layout = native, Layout.CHANNELS_LAST
    else:
        moved, layout = transpose(native, physical), Layout.LOGICAL
    result = computed(moved, layout, non_negative=value.non_negative)
    result = result.with_parts_of(value, lambda places: places.transpose(order))
    return result.with_sizes_of(value, enumerate(axis % value.rank for axis in order))


@lowers("Expand", since=8, T=ANY)
def expand(op: OperatorContext) -> Value:
    """Lower Expand: broadcast to a shape; an axis of the value that is not 1 wins over a 1 in the shape."""
    value, wanted = op.value(0), op.sizes(1, "shape")
    rank = max(value.rank, len(wanted))
    old_sizes: list[Size] = [1] * (rank - value.rank) + [value.size(axis) for axis in range(value.rank)]
    target = [broadcast_size(a, b) for a, b in zip(old_sizes, [1] * (rank - len(wanted)) + list(wanted), strict=True)]
    if len(target) == value.rank and all(is_same_size(a, b) for a, b in zip(old_sizes, target, strict=True)):
        return value
    return computed(tf.broadcast_to(value.tensor(), pack_sizes(target))).with_sizes(target)
