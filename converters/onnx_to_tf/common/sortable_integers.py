"""The order of numbers, of every dtype and with NaN, as integers that a kernel can sort; and indices in their bounds.

TensorFlow's and TFLite's top-k put NaN anywhere, and cannot turn the order of unsigned numbers around by a minus sign.
"""

from __future__ import annotations

from ..lazy_tensorflow import tf
from ..values import Size, TfTensor


def keys(tensor: TfTensor) -> TfTensor:
    """Integers in the tensor's shape, ordered as its numbers are: -0 as 0, and every NaN above all, as numpy and
    PyTorch have it. Integers are their own keys."""
    if tensor.dtype == tf.bool:
        return tf.cast(tensor, tf.int32)
    if not tensor.dtype.is_floating:
        return tensor
    if tensor.dtype != tf.float64:
        tensor = tf.cast(tensor, tf.float32)
    whole = tf.int64 if tensor.dtype == tf.float64 else tf.int32
    bits = tf.bitcast(tensor, whole)  # sign and magnitude
    signed = tf.where(bits < 0, whole.min - bits, bits)
    infinite = 0x7FF0000000000000 if whole == tf.int64 else 0x7F800000
    return tf.where(tf.abs(signed) > infinite, tf.constant(whole.max, whole), signed)


def turned(ordered: TfTensor) -> TfTensor:
    """Keys in the opposite order; no integer overflows."""
    highest = -1 if ordered.dtype.min < 0 else ordered.dtype.max
    return tf.constant(highest, ordered.dtype) - ordered


def ascending(ordered: TfTensor) -> TfTensor:
    """Where each key of a vector stands in ascending order, int32; equals keep their order."""
    return tf.math.top_k(turned(ordered), tf.shape(ordered)[0])[1]


def within(index: TfTensor, size: Size) -> TfTensor:
    """Indices cut to an axis of `size`, int32.

    Not by tf.clip_by_value: of the bounds 0 and 1 or 0 and 6 TFLite's converter makes an activation, of integers too.
    """
    return tf.minimum(tf.where(index < 0, tf.zeros_like(index), index), size - 1)
