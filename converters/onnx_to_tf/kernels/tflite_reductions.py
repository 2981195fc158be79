"""Products, extremes and scatters in what TFLite has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..lazy_tensorflow import tf
from ..values import Size, TfTensor


def running_product(x: TfTensor, axis: int, exclusive: bool, reverse: bool) -> TfTensor:
    """Return the running product by doubling: after k rounds each is the product of the 2^k elements up to it."""
    x = tf.reverse(x, [axis]) if reverse else x
    length = x.shape[axis] if x.shape[axis] is not None else tf.shape(x)[axis]
    products = _move_on(x, 1, axis) if exclusive else x
    if isinstance(length, int):
        for power in range(max(length - 1, 0).bit_length()):
            products = products * _move_on(products, 2**power, axis)
    else:
        _, products = tf.while_loop(
            lambda step, _: step < length,
            lambda step, so_far: (step * 2, so_far * _move_on(so_far, step, axis)),
            (tf.constant(1), products),
        )
    return tf.reverse(products, [axis]) if reverse else products


def _move_on(x: TfTensor, step: Size, axis: int) -> TfTensor:
    """Move every element on by `step` places; ones come in, what lies behind the end is dropped."""
    step = tf.minimum(step, tf.shape(x)[axis])
    front = tf.ones_like(x[(slice(None),) * axis + (slice(0, step),)])
    return tf.concat([front, x[(slice(None),) * axis + (slice(0, tf.shape(x)[axis] - step),)]], axis)


def reduce_max(x: TfTensor, axes: Sequence[int] | TfTensor, keep: bool) -> TfTensor:
    """Return the largest; of no elements TFLite's is the lowest number, which becomes minus infinity here."""
    extreme, lowest = tf.reduce_max(x, axes, keep), _below_nothing(x, axes)
    return extreme if lowest is None else extreme + lowest


def reduce_min(x: TfTensor, axes: Sequence[int] | TfTensor, keep: bool) -> TfTensor:
    """Return the smallest, as `largest` the other way round."""
    extreme, lowest = tf.reduce_min(x, axes, keep), _below_nothing(x, axes)
    return extreme if lowest is None else extreme - lowest


def _below_nothing(x: TfTensor, axes: Sequence[int] | TfTensor) -> TfTensor | None:
    """Return 0, or minus infinity if there are no elements to reduce; None for some elements, or integers."""
    reduced = [x.shape[axis] for axis in axes] if isinstance(axes, Sequence) else [None]
    if not x.dtype.is_floating or (None not in reduced and 0 not in reduced):
        return None
    if 0 in reduced:
        raise NotImplementedError("TFLite has no infinity for the extreme of no elements")
    count = tf.reduce_prod(tf.gather(tf.shape(x), tf.math.floormod(axes, x.shape.rank)))
    return tf.math.log(tf.cast(tf.minimum(count, 1), x.dtype))


def row_sums(updates: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    """Compute Kernels.row_sums in what TFLite has.

    Floats by a reduction over segments and not by a scatter: TFLite quantises a scatter, then adds up the 8 bits as
    they lie, with the byte 0 where no update goes to, whatever stands for 0.
    """
    if updates.dtype.is_floating:
        return tf.math.unsorted_segment_sum(updates, row, rows)
    return tf.scatter_nd(row[:, None], updates, tf.concat([rows[None], tf.shape(updates)[1:]], 0))


def scatter_by_segments(mode: str, tensor: TfTensor, places: TfTensor, updates: TfTensor) -> TfTensor:
    """Return `tensor` with the updates at index vectors, none negative, in their places ("none") or combined with them.

    The modes are "add", "mul", "max" and "min". The updates of one place are combined first. Places without any get a
    neutral number: 0, 1, the lowest or the highest. (For a sum TFLite's converter would count the updates of each
    place, subtract the old number as often, and add it as often again: infinities do not survive that.) Infinities are
    told apart, since the lowest float is above minus infinity.
    """
    depth = places.shape[-1]
    shape = tf.shape(tensor)
    places = tf.cast(places, tf.int32)
    row = tf.zeros(tf.shape(places)[:-1], tf.int32)
    for at in range(depth):
        row = row * shape[at] + places[..., at]
    rows, row = tf.reduce_prod(shape[:depth]), tf.reshape(row, [-1])
    flat_updates = tf.reshape(updates, tf.concat([tf.shape(row), shape[depth:]], 0))
    old = tf.reshape(tensor, tf.concat([rows[None], shape[depth:]], 0))
    return tf.reshape(_FUNCTIONS[mode](old, flat_updates, row, rows), shape)


def _last(old: TfTensor, updates: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    """Return the last update of each place.

    The specification leaves open which, but does not allow the sum, which TFLite's own kernel computes. A token that
    occurs twice sends its one score twice.
    """
    last = tf.math.unsorted_segment_max(tf.range(tf.size(row)), row, rows)  # below 0 where nothing comes to
    return tf.gather(tf.concat([old, updates], 0), tf.where(last < 0, tf.range(rows), last + rows))


def _extreme(old: TfTensor, updates: TfTensor, row: TfTensor, rows: TfTensor, *, largest: bool) -> TfTensor:
    """Return the largest or the smallest; of floats the old number where none of the updates is finite."""
    choose, segment = (
        (tf.maximum, tf.math.unsorted_segment_max) if largest else (tf.minimum, tf.math.unsorted_segment_min)
    )
    result = choose(old, segment(updates, row, rows))
    if not old.dtype.is_floating:
        return result
    finite = updates >= updates.dtype.min if largest else updates <= updates.dtype.max
    return tf.where(tf.math.unsorted_segment_sum(tf.cast(finite, tf.int32), row, rows) > 0, result, old)


_FUNCTIONS: dict[str, Callable[[TfTensor, TfTensor, TfTensor, TfTensor], TfTensor]] = {
    "none": _last,
    "add": lambda old, updates, row, rows: old + row_sums(updates, row, rows),
    "mul": lambda old, updates, row, rows: old * tf.math.unsorted_segment_prod(updates, row, rows),
    "max": partial(_extreme, largest=True),
    "min": partial(_extreme, largest=False),
}
