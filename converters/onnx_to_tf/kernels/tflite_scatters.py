"""Scatters by the reductions over segments that TFLite has."""

from __future__ import annotations

from ..lazy_tensorflow import tf
from ..values import TfTensor


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


def _sum(old: TfTensor, updates: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    return old + row_sums(updates, row, rows)


def _product(old: TfTensor, updates: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    return old * tf.math.unsorted_segment_prod(updates, row, rows)


def _largest(old: TfTensor, updates: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    result = tf.maximum(old, tf.math.unsorted_segment_max(updates, row, rows))
    return _where_any(updates >= updates.dtype.min, result, old, row, rows) if old.dtype.is_floating else result


def _smallest(old: TfTensor, updates: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    result = tf.minimum(old, tf.math.unsorted_segment_min(updates, row, rows))
    return _where_any(updates <= updates.dtype.max, result, old, row, rows) if old.dtype.is_floating else result


def _where_any(finite: TfTensor, result: TfTensor, old: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    """Return the result where one of the updates is finite, and else the old number."""
    return tf.where(tf.math.unsorted_segment_sum(tf.cast(finite, tf.int32), row, rows) > 0, result, old)


_FUNCTIONS = {"none": _last, "add": _sum, "mul": _product, "max": _largest, "min": _smallest}
