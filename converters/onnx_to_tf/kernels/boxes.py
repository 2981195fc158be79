"""Choosing boxes, for TFLite."""

from __future__ import annotations

from ..lazy import tf
from ..order import keys
from ..values import TfTensor


def non_max_suppression(
    boxes: TfTensor, scores: TfTensor, count: TfTensor, overlap: TfTensor, least: TfTensor | None
) -> tuple[TfTensor, TfTensor]:
    """As `Kernels.non_max_suppression`, by TFLite's own, which differs in two things.

    It takes boxes of equal scores in any order: here they are sorted first, and their scores are their ranks. And it
    gives up a box that overlaps by just `overlap`: here it gets the next larger number, and where that is above 1 boxes
    without an area, because no two overlap by more than all.
    """
    number = tf.shape(scores)[0]
    order = tf.math.top_k(keys(scores), number)[1]
    ranks = tf.cast(number - tf.range(number), tf.float32)
    if least is not None:
        ranks = tf.where(tf.gather(scores, order) > least, ranks, tf.zeros_like(ranks))
    found, valid = tf.raw_ops.NonMaxSuppressionV4(
        boxes=tf.gather(boxes, order) * tf.where(overlap < 1, 1.0, 0.0),
        scores=ranks,
        max_output_size=count,
        iou_threshold=tf.minimum(tf.bitcast(tf.bitcast(tf.abs(overlap), tf.int32) + 1, tf.float32), 1.0),
        score_threshold=0.5,
        pad_to_max_output_size=True,
    )
    return tf.gather(order, found), valid
