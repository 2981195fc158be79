"""Scatters by the reductions over segments that TFLite has."""

from __future__ import annotations

from ..lazy_tensorflow import tf
from ..values import TfTensor


def row_sums(updates: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    """Kernels.row_sums in what TFLite has.

    Floats by a reduction over segments and not by a scatter: that one TFLite quantises, and then adds up the 8 bits as
    they lie, with the byte 0 where nothing comes to, whatever stands for 0.
    """
    if updates.dtype.is_floating:
        return tf.math.unsorted_segment_sum(updates, row, rows)
    return tf.scatter_nd(row[:, None], updates, tf.concat([rows[None], tf.shape(updates)[1:]], 0))


def combined(mode: str, tensor: TfTensor, places: TfTensor, updates: TfTensor) -> TfTensor:
    """`tensor` with the updates at index vectors without negative ones in their places ("none"), added ("add") or
    multiplied ("mul"), or their "max" or "min".

    The updates of one place are brought together first. Places without any get what changes nothing: 0, 1, the lowest
    or the highest number. (For a sum TFLite's converter would count what comes to each place, take what was there as
    often away, and add it as often again: infinities do not survive that.) Infinities are told apart, since the
    lowest float is above minus infinity.
    """
    depth = places.shape[-1]
    shape = tf.shape(tensor)
    places = tf.cast(places, tf.int32)
    row = tf.zeros(tf.shape(places)[:-1], tf.int32)
    for at in range(depth):
        row = row * shape[at] + places[..., at]
    rows, row = tf.reduce_prod(shape[:depth]), tf.reshape(row, [-1])
    given = tf.reshape(updates, tf.concat([tf.shape(row), shape[depth:]], 0))
    have = tf.reshape(tensor, tf.concat([rows[None], shape[depth:]], 0))
    return tf.reshape(_FUNCTIONS[mode](have, given, row, rows), shape)


def _last(have: TfTensor, given: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    """The last of what comes to a place. The specification leaves open which, but says nowhere that it may be the sum,
    as which TFLite's own kernel has it; and a token that came twice is given twice, with one score."""
    last = tf.math.unsorted_segment_max(tf.range(tf.size(row)), row, rows)  # below 0 where nothing comes to
    return tf.gather(tf.concat([have, given], 0), tf.where(last < 0, tf.range(rows), last + rows))


def _sum(have: TfTensor, given: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    return have + row_sums(given, row, rows)


def _product(have: TfTensor, given: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    return have * tf.math.unsorted_segment_prod(given, row, rows)


def _largest(have: TfTensor, given: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    made = tf.maximum(have, tf.math.unsorted_segment_max(given, row, rows))
    return _where_any(given >= given.dtype.min, made, have, row, rows) if have.dtype.is_floating else made


def _smallest(have: TfTensor, given: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    made = tf.minimum(have, tf.math.unsorted_segment_min(given, row, rows))
    return _where_any(given <= given.dtype.max, made, have, row, rows) if have.dtype.is_floating else made


def _where_any(alive: TfTensor, made: TfTensor, have: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
    """What was made where one of the updates is alive, and else what was there."""
    return tf.where(tf.math.unsorted_segment_sum(tf.cast(alive, tf.int32), row, rows) > 0, made, have)


_FUNCTIONS = {"none": _last, "add": _sum, "mul": _product, "max": _largest, "min": _smallest}
