"""Choosing boxes, for TFLite."""

from __future__ import annotations

from ..common.sortable_integers import sort_keys
from ..lazy_tensorflow import tf
from ..values import TfTensor


def non_max_suppression(
    boxes: TfTensor, scores: TfTensor, count: TfTensor, overlap: TfTensor, least: TfTensor | None
) -> tuple[TfTensor, TfTensor]:
    """Choose boxes as `Kernels.non_max_suppression` does, one box after the other.

    TFLite has a kernel of its own. It takes equal scores in any order, drops boxes that overlap by just `overlap`, and
    returns wrong boxes where one has no area.
    """
    ordered = sort_keys(scores)
    if least is not None:
        ordered = tf.where(scores > least, ordered, tf.fill(tf.shape(ordered), _GONE))
    low, high = tf.minimum(boxes[:, :2], boxes[:, 2:]), tf.maximum(boxes[:, :2], boxes[:, 2:])
    area = tf.reduce_prod(high - low, 1)
    indices = tf.range(tf.shape(scores)[0])

    def choose(step: TfTensor, left: TfTensor, chosen: TfTensor) -> tuple[TfTensor, TfTensor, TfTensor]:
        best = tf.argmax(left, output_type=tf.int32)  # of equals the first
        shared = tf.minimum(high, tf.gather(high, best)) - tf.maximum(low, tf.gather(low, best))
        common = tf.reduce_prod(tf.maximum(shared, 0.0), 1)
        share = common / (area + tf.gather(area, best) - common)  # NaN for boxes without area: no overlap
        gone = (share > overlap) | tf.equal(indices, best)
        chosen = tf.where(tf.equal(tf.range(count), step), best, chosen)
        return step + 1, tf.where(gone, tf.fill(tf.shape(left), _GONE), left), chosen

    start = (tf.constant(0), ordered, tf.zeros(tf.reshape(count, [1]), tf.int32))
    state = tf.while_loop(
        lambda step, left, _: (step < count) & (tf.reduce_max(left) > _GONE),
        choose,
        start,
        shape_invariants=(tf.TensorShape([]), ordered.shape, tf.TensorShape([None])),
    )
    return state[2], state[0]


_GONE = -(2**31)  # below every key of a score
