"""Operations on matrices that TFLite has no kernels for; the Fourier transform is a product with one, of any length."""

from __future__ import annotations

import numpy as np

from ..lazy_tensorflow import tf
from ..values import Size, TfTensor


def determinant(matrices: TfTensor) -> TfTensor:
    """Return the determinants of (n, size, size), the size known: elimination with the largest of a column as pivot."""
    left = matrices
    product = tf.ones_like(tf.reduce_sum(matrices, [1, 2]))
    while left.shape[1] > 0:
        first = left[:, :, 0]
        at = tf.argmax(tf.abs(first), 1, output_type=tf.int32)
        pivot = tf.gather(left, at, batch_dims=1)
        moved = tf.where(tf.one_hot(at, left.shape[1], True, False)[:, :, None], left[:, :1], left)[:, 1:]
        swapped = tf.where(at > 0, -tf.ones_like(product), tf.ones_like(product))
        product = product * pivot[:, 0] * swapped
        safe = tf.where(tf.equal(pivot[:, :1], 0), tf.ones_like(pivot[:, :1]), pivot[:, :1])
        left = moved[:, :, 1:] - (moved[:, :, 0] / safe)[:, :, None] * pivot[:, None, 1:]
    return product


def fourier_transform(
    real: TfTensor, imaginary: TfTensor | None, length: Size, bins: Size
) -> tuple[TfTensor, TfTensor]:
    """Return the first `bins` of sum_n x_n exp(-2 pi j k n / length), along a last axis of `length` elements."""
    cosines, sines = _turns(length, bins, real.dtype)
    first, second = tf.matmul(real, cosines), -tf.matmul(real, sines)
    if imaginary is None:
        return first, second
    return first + tf.matmul(imaginary, sines), second + tf.matmul(imaginary, cosines)


def _turns(length: Size, bins: Size, dtype: TfTensor) -> tuple[TfTensor, TfTensor]:
    """Return cosines and sines of 2 pi k n / length, (length, bins); the angle is reduced as an integer."""
    if isinstance(length, int) and isinstance(bins, int):
        angles = 2 * np.pi / max(length, 1) * (np.outer(np.arange(length), np.arange(bins)) % max(length, 1))
        return tf.constant(np.cos(angles), dtype), tf.constant(np.sin(angles), dtype)
    turns = tf.range(length)[:, None] * tf.range(bins) % length
    angles = tf.cast(turns, dtype) * (2 * np.pi / tf.cast(length, dtype))
    return tf.cos(angles), tf.sin(angles)
