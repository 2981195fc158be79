"""The Fourier transform as a product with a matrix: TFLite has no kernel for every length and both parts."""

from __future__ import annotations

import numpy as np

from ..lazy_tensorflow import tf
from ..values import Size, TfTensor


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
