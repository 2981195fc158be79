"""Boxes chosen by their scores."""

from __future__ import annotations

import numpy as np

from ...kernels.converter_safe import clip_index
from ...lazy_tensorflow import tf
from ...lowerings import lowers
from ...operator_context import OperatorContext
from ...values import FAR, Size, TfTensor, Value, computed, pack_sizes, product


@lowers("NonMaxSuppression", since=10)
def non_max_suppression(op: OperatorContext) -> Value:
    """Lower NonMaxSuppression: boxes (N, boxes, 4), scores (N, classes, boxes) to rows of (batch, class, box).

    For each class of each sample, by falling score, those that overlap none of the ones before by more than a share of
    the area of both.
    """
    boxes, scores = op.value(0), op.value(1)
    classes, count = scores.size(1), _at_most(op, boxes.size(1))
    corners = _corners(boxes.tensor(), centred=op.flag("center_point_box"))
    pairs = product([scores.size(0), classes])
    lines = tf.reshape(scores.tensor(), pack_sizes([pairs, scores.size(2)]))
    overlap = tf.zeros([]) if op.optional(3) is None else tf.reshape(op.tensor(3), [])
    least = None if op.optional(4) is None else tf.reshape(op.tensor(4), [])
    if isinstance(count, int) and count == 0:
        return op.known(np.zeros((0, 3), np.int64))
    count = tf.constant(count) if isinstance(count, int) else count
    if isinstance(pairs, int) and pairs == 1:  # a loop around a loop ends the process of TensorFlow's calibrator
        best, valid = op.kernels.non_max_suppression(corners[0], lines[0], count, overlap, least)
        return computed(_rows(best[None], tf.reshape(valid, [1]), count, classes))

    def choose(at: TfTensor, chosen: TfTensor, counts: TfTensor) -> tuple[TfTensor, TfTensor, TfTensor]:
        boxes_of_sample = tf.gather(corners, at // classes)
        best, valid = op.kernels.non_max_suppression(boxes_of_sample, tf.gather(lines, at), count, overlap, least)
        place = tf.reshape(at, [1, 1])
        chosen = tf.tensor_scatter_nd_update(chosen, place, best[None])
        return at + 1, chosen, tf.tensor_scatter_nd_update(counts, place, tf.reshape(valid, [1]))

    start = (tf.constant(0), tf.zeros(tf.stack([pairs, count]), tf.int32), tf.zeros([pairs], tf.int32))
    _, chosen, counts = tf.while_loop(lambda at, *_: (at < pairs) & (count > 0), choose, start)
    return computed(_rows(chosen, counts, count, classes))


def _at_most(op: OperatorContext, boxes: Size) -> Size:
    """Return how many boxes of a class are chosen at most; none where the model does not say."""
    (limit,) = (0,) if op.optional(2) is None else op.sizes(2, "number of boxes of a class")
    if isinstance(limit, int) and isinstance(boxes, int):
        return max(min(limit, boxes), 0)
    return clip_index(tf.constant(min(limit, FAR), tf.int32) if isinstance(limit, int) else limit, boxes + 1)


def _corners(boxes: TfTensor, *, centred: bool) -> TfTensor:
    """Return two opposite corners, any of which do; a box of negative width or height overlaps nothing."""
    if not centred:
        return boxes
    x, y, width, height = tf.unstack(boxes, 4, axis=-1)
    half_width, half_height = tf.maximum(width, 0) / 2, tf.maximum(height, 0) / 2
    return tf.stack([y - half_height, x - half_width, y + half_height, x + half_width], -1)


def _rows(chosen: TfTensor, counts: TfTensor, count: TfTensor, classes: Size) -> TfTensor:
    """Return the boxes chosen for each class of each sample, of which the first `counts` are meant, as rows."""
    places = tf.cast(tf.where(tf.range(count)[None] < counts[:, None]), tf.int32)
    line, box = places[:, 0], tf.gather_nd(chosen, places)
    return tf.cast(tf.stack([line // classes, line % classes, box], 1), tf.int64)
