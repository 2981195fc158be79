"""Products and extremes along axes in what TFLite has."""

from __future__ import annotations

from collections.abc import Sequence

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
