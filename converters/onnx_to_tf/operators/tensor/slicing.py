"""Parts of a tensor by position, and in reverse."""

from __future__ import annotations

from ....onnx_graph.semantics.former_attributes import slice_arguments
from ...kernels.tflite_converter_forms import is_computed, slice_left_open
from ...lazy_tensorflow import tf
from ...lowerings import ANY, INDICES, lowers
from ...operator_context import OperatorContext
from ...values import FAR, Size, TfTensor, Value, as_int32, computed, is_same_size, with_rank

_NOTHING = slice(0, 0, 1)


@lowers("Slice", since=1, T=ANY, Tind=INDICES)
def slice_axes(op: OperatorContext) -> Value:
    """Lower Slice: from start to end - 1 by steps along each of the axes; the first ones where none are named."""
    if any(value is not None and value.computing for value in (op.optional(3), op.optional(4))):
        return _slice_computed_axes(op)
    parts = slice_arguments(op)
    starts, ends, axes, steps = parts.starts, parts.ends, parts.axes, parts.steps
    value = op.value(0)
    if value.only_parts is not None and axes and isinstance(starts[0], int) and isinstance(ends[0], int):
        begin, end = bounds(starts[0], ends[0], steps[0], len(value.only_parts))
        return op.sized(value.only_parts[slice(begin, end, steps[0])], dtype=value.dtype)
    cut = [slice(None)] * value.rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cut[value.place(axis)] = _axis_slice(value, axis, start, end, step)
    native = value.tensor(value.layout)
    opened = slice_left_open(native, cut, lambda place: value.size(value.layout.order(value.rank)[place]))
    result = computed(opened, value.layout, non_negative=value.non_negative)
    if value.parts is not None and not any(is_computed(part) for part in cut):
        result = result.with_parts_of(value, lambda places: places[tuple(cut)])
    return result.with_sizes_of(value, [(axis, axis) for axis in range(value.rank) if axis not in axes])


def bounds(start: int, end: int, step: int, length: int) -> tuple[int, int | None]:
    """Cut start and end to the axis as the specification words it; an end of None lies before the first element."""
    start += length if start < 0 else 0
    end += length if end < 0 else 0
    if step > 0:
        return min(max(start, 0), length), min(max(end, 0), length)
    end = min(max(end, -1), length - 1)
    return min(max(start, 0), length - 1), None if end < 0 else end


def _axis_slice(value: Value, axis: int, start: Size, end: Size, step: int) -> slice:
    """Return the slice of one axis.

    TensorFlow cuts start and end to the axis as the specification does, except for a start that lies before the first
    element and a negative step: TensorFlow begins nowhere, the specification at the first element.
    """
    length = value.shape[axis]
    if isinstance(start, int) and isinstance(end, int) and length is not None:
        first, past = bounds(start, end, step, length)
        return _NOTHING if past == 0 and step > 0 else slice(first, past, step)
    if step > 0 and is_same_size(end, 0):
        return _NOTHING
    full = slice(-FAR, FAR) if step > 0 else slice(FAR, -FAR)
    first, last = _clip_place(start), _clip_place(end)
    if step < 0 and not (isinstance(first, int) and first >= -1):
        first = tf.maximum(first, -value.size(axis))
    begins = is_same_size(first, full.start) or (step > 0 and is_same_size(first, 0))
    return slice(None if begins else first, None if is_same_size(last, full.stop) else last, step)


def _clip_place(size: Size) -> Size:
    """Return a place cut to what an int32 holds."""
    return min(max(size, -FAR), FAR) if isinstance(size, int) else size


def _slice_computed_axes(op: OperatorContext) -> Value:
    """Slice as `slice_axes`, with all of it computed: each axis of the value gets a start, an end and a step."""
    value = op.value(0)
    tensor = value.tensor()
    starts, ends = (as_int32(tf.reshape(op.tensor(at), [-1])) for at in (1, 2))
    axes = as_int32(op.tensor(3)) if op.optional(3) is not None else tf.range(tf.size(starts))
    axes = tf.math.floormod(axes, value.rank)
    steps = as_int32(op.tensor(4)) if op.optional(4) is not None else tf.ones_like(starts)
    sizes = tf.gather(tf.shape(tensor), axes)
    back = steps < 0
    starts = tf.where(starts < 0, starts + sizes, starts)
    starts = tf.maximum(tf.minimum(starts, tf.where(back, sizes - 1, sizes)), 0)
    # An end before the first element is written as one that stays so when TensorFlow counts it from the end.
    ends = tf.where(back & (ends < -sizes), -sizes - 1, ends)

    def everywhere(untouched: TfTensor, numbers: TfTensor) -> TfTensor:
        return tf.tensor_scatter_nd_update(untouched, axes[:, None], numbers)

    begin = everywhere(tf.zeros([value.rank], tf.int32), starts)
    end, by = everywhere(tf.shape(tensor), ends), everywhere(tf.ones([value.rank], tf.int32), steps)
    return computed(with_rank(tf.strided_slice(tensor, begin, end, by), value.rank))


@lowers("ReverseSequence", since=10, until=28, T=ANY)
def reverse_sequence(op: OperatorContext) -> Value:
    """Lower ReverseSequence: the first lengths[i] elements along the time axis reversed, i along the batch axis."""
    value, lengths = op.value(0), op.tensor(1)
    batch, time = op.integer("batch_axis", 1) % value.rank, op.integer("time_axis", 0) % value.rank
    return computed(op.kernels.reverse_sequence(value.tensor(), lengths, time, batch)).with_sizes_of(value)
