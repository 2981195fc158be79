"""The order of numbers, of every dtype and with NaN, as integers that a kernel can sort.

Neither dialect's top-k has a fixed place for NaN, or can turn the order of unsigned numbers around by a minus sign.
"""

from __future__ import annotations

from ..lazy_tensorflow import tf
from ..values import TfTensor


def sort_keys(tensor: TfTensor) -> TfTensor:
    """Return integers in the order of the numbers: -0 as 0, NaN above all (numpy, PyTorch), integers as they are."""
    if tensor.dtype == tf.bool:
        return tf.cast(tensor, tf.int32)
    if not tensor.dtype.is_floating:
        return tensor
    if tensor.dtype != tf.float64:
        tensor = tf.cast(tensor, tf.float32)
    integer = tf.int64 if tensor.dtype == tf.float64 else tf.int32
    bits = tf.bitcast(tensor, integer)  # sign and magnitude
    signed = tf.where(bits < 0, integer.min - bits, bits)
    infinite = 0x7FF0000000000000 if integer == tf.int64 else 0x7F800000
    return tf.where(tf.abs(signed) > infinite, tf.constant(integer.max, integer), signed)


def reverse_keys(ordered: TfTensor) -> TfTensor:
    """Return keys in the opposite order; no integer overflows."""
    highest = -1 if ordered.dtype.min < 0 else ordered.dtype.max
    return tf.constant(highest, ordered.dtype) - ordered


def ascending_order(ordered: TfTensor) -> TfTensor:
    """Return where each key of a vector stands in ascending order, int32; equals keep their order."""
    return tf.math.top_k(reverse_keys(ordered), tf.shape(ordered)[0])[1]
