"""Elements chosen by indices, set there, or reduced with updates. Negative indices count from the end, everywhere."""

from __future__ import annotations

import numpy as np

from ...lazy_tensorflow import tf
from ...lowerings import ANY, INDICES, NUMBERS, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, computed, known, line_along, map_elements


@lowers("Gather", since=1, T=ANY, Tind=INDICES)
def gather(op: OperatorContext) -> Value:
    """Lower Gather: slices along an axis, in whose place come the indices' axes."""
    value, indices = op.value(0), op.value(1)
    axis = op.integer("axis", 0) % value.rank
    if value.only_parts is not None and indices.array is not None and indices.rank < 2:
        chosen = [value.only_parts[int(at)] for at in indices.array.reshape(-1)]
        return op.sized(chosen, scalar=indices.rank == 0, dtype=value.dtype)
    answer = computed(tf.gather(value.tensor(), from_start(op, indices, value.size(axis)), axis=axis))
    after = indices.rank - 1
    sliced_axes = [(at if at < axis else at + after, at) for at in range(value.rank) if at != axis]
    return answer.with_sizes_of(value, sliced_axes).with_sizes_of(
        indices, [(axis + at, at) for at in range(indices.rank)]
    )


def from_start(op: OperatorContext, indices: Value, size: Size) -> TfTensor:
    """Return indices without negative ones: TensorFlow has none, and on a GPU it returns zeros for them."""
    if indices.array is not None and (isinstance(size, int) or (indices.array >= 0).all()):
        length = size if isinstance(size, int) else 0
        positive = np.where(indices.array < 0, indices.array + length, indices.array)
        return known(positive.astype(np.int32), op.weights).tensor()
    tensor = indices.tensor()
    return tf.where(tensor < 0, tensor + tf.cast(size, tensor.dtype), tensor)


@lowers("GatherElements", since=11, T=ANY, Tind=INDICES)
def gather_elements(op: OperatorContext) -> Value:
    """Lower GatherElements: result[i, j, k] = x[i, indices[i, j, k], k], for the axis in the middle."""
    value, indices = op.value(0), op.value(1)
    axis = op.integer("axis", 0) % value.rank
    return computed(tf.gather_nd(value.tensor(), element_places(op, value, indices, axis))).with_sizes_of(indices)


def element_places(op: OperatorContext, value: Value, indices: Value, axis: int) -> TfTensor:
    """Return for each element of `indices` its place in `value`: its own, and along `axis` the index."""
    along = tf.cast(from_start(op, indices, value.size(axis)), tf.int32)
    shape = tf.shape(along)
    places = [
        along if at == axis else tf.broadcast_to(line_along(tf.range(indices.size(at)), at, indices.rank), shape)
        for at in range(indices.rank)
    ]
    return tf.stack(places, -1)


@lowers("GatherND", since=11, T=ANY)
def gather_nd(op: OperatorContext) -> Value:
    """Lower GatherND: slices by vectors of indices, which lie along the last axis of `indices`."""
    value, indices, batch = op.value(0), op.value(1), op.integer("batch_dims", 0)
    return computed(tf.gather_nd(value.tensor(), nd_places(op, value, indices, batch), batch_dims=batch))


def nd_places(op: OperatorContext, value: Value, indices: Value, batch: int = 0) -> TfTensor:
    """Return vectors of indices without negative ones."""
    depth = indices.shape[-1]
    if depth is None:
        op.refuse("the length of its index vectors is known only when the model runs", fix="fix it when exporting")
    if indices.array is not None and (indices.array >= 0).all():
        return indices.tensor()
    tensor = indices.tensor()
    sizes = tf.stack([tf.cast(value.size(batch + at), tensor.dtype) for at in range(depth)])
    return tf.where(tensor < 0, tensor + sizes, tensor)


@lowers("OneHot", since=9, until=28, T1=NUMBERS, T2=NUMBERS, T3=ANY)
def one_hot(op: OperatorContext) -> Value:
    """Lower OneHot: values[1] at the index along a new axis, values[0] elsewhere and where it is out of range."""
    indices, axis = op.value(0), op.integer("axis", -1)
    off, on = tf.unstack(op.tensor(2), 2)
    depth = op.value(1)
    size: Size = int(depth.array.item()) if depth.array is not None else tf.cast(tf.reshape(op.tensor(1), []), tf.int32)
    wide = map_elements(indices, lambda t: tf.cast(t, tf.int64)).tensor()
    positive = tf.where(wide < 0, wide + tf.cast(size, tf.int64), wide)
    return computed(tf.one_hot(positive, size, on, off, axis=axis % (indices.rank + 1)))


@lowers("Trilu", since=14, T=ANY)
def trilu(op: OperatorContext) -> Value:
    """Lower Trilu: the upper or the lower triangle of the innermost matrices; the diagonal moved by k."""
    value, upper = op.value(0), op.flag("upper", True)
    (shift,) = (0,) if op.optional(1) is None else op.sizes(1, "k")
    rows, columns = tf.range(value.size(value.rank - 2)), tf.range(value.size(value.rank - 1))
    offset = columns[None, :] - rows[:, None]
    inside = offset >= shift if upper else offset <= shift
    tensor = value.tensor()
    return computed(tf.where(inside, tensor, tf.zeros_like(tensor))).with_sizes_of(value)


_REDUCTIONS = ("none", "add", "mul", "max", "min")


@lowers("ScatterND", since=11, T=ANY)
def scatter_nd(op: OperatorContext) -> Value:
    """Lower ScatterND: x with the slices at the index vectors set to the updates, or reduced with them."""
    value, indices, updates = op.value(0), op.value(1), op.value(2)
    mode = op.word("reduction", "none", _REDUCTIONS)
    places = nd_places(op, value, indices)
    return computed(op.kernels.scatter(mode, value.tensor(), places, updates.tensor())).with_sizes_of(value)


@lowers("ScatterElements", "Scatter", since=9, T=ANY, Tind=INDICES)
def scatter_elements(op: OperatorContext) -> Value:
    """Lower ScatterElements (once Scatter): x[i, indices[i, j, k], k] = updates[i, j, k], or reduced with it."""
    value, indices, updates = op.value(0), op.value(1), op.value(2)
    mode = op.word("reduction", "none", _REDUCTIONS)
    places = element_places(op, value, indices, op.integer("axis", 0) % value.rank)
    return computed(op.kernels.scatter(mode, value.tensor(), places, updates.tensor())).with_sizes_of(value)
