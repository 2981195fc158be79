"""Operations on square matrices that TFLite has no kernels for."""

from __future__ import annotations

from ..lazy_tensorflow import tf
from ..values import TfTensor


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
