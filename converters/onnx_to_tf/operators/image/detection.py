"""Boxes chosen by their scores, and regions of images pooled to one size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ....onnx_graph.semantics.resampling_attributes import roi_align_attributes
from ...kernels.tflite_converter_forms import clip_index
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, INDICES, lowers
from ...operator_context import OperatorContext
from ...values import FAR, Layout, Size, TfTensor, Value, computed, pack_sizes, product


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


# Adds one sample of every bin to the result of those before: (step along height, step along width, before).
_Step = Callable[[Size, Size, TfTensor], TfTensor]
_MOST_UNROLLED = 16


@dataclass(frozen=True)
class _Bins:
    """The bins along one axis of every region, and the samples in a bin; all but `axis` by region."""

    start: TfTensor
    size: TfTensor  # of a bin
    samples: TfTensor  # in a bin; may be none
    count: int
    axis: Size  # the axis' size

    def read(self, step: Size) -> list[tuple[TfTensor, TfTensor]]:
        """Return the two elements around the sample at a step of every bin: index and share, (regions, bins)."""
        bins = tf.cast(tf.range(self.count), self.size.dtype)[None]
        samples = tf.cast(tf.maximum(self.samples, 1), self.size.dtype)
        offset = (tf.cast(step, self.size.dtype) + 0.5) * self.size / samples
        at = self.start[:, None] + bins * self.size[:, None] + offset[:, None]
        length = tf.cast(self.axis, at.dtype)
        inside = tf.cast((at >= -1) & (at <= length), at.dtype)
        low = tf.minimum(tf.floor(tf.maximum(at, 0)), length - 1)
        part = tf.where(low >= length - 1, tf.zeros_like(at), tf.maximum(at, 0) - low)
        return [
            (clip_index(tf.cast(low, tf.int32), self.axis), (1 - part) * inside),
            (clip_index(tf.cast(low, tf.int32) + 1, self.axis), part * inside),
        ]


def _bins(start: TfTensor, end: TfTensor, count: int, ratio: int, axis: Size, *, shifted: bool) -> _Bins:
    """Return bins with `ratio` samples each, or where that is 0 about one for each pixel."""
    length = end - start if shifted else tf.maximum(end - start, 1)  # without a shift malformed regions have one pixel
    size = length / count
    samples = tf.fill(tf.shape(size), ratio) if ratio > 0 else tf.cast(tf.math.ceil(size), tf.int32)
    return _Bins(start, size, samples, count, axis)


@lowers("RoiAlign", since=10, T1=FLOATS, T2=INDICES)
def roi_align(op: OperatorContext) -> Value:
    """Lower RoiAlign: regions (count, 4) of X (N, C, H, W), divided into bins, to (count, C, bins, bins).

    The samples of a bin are averaged, or the largest is taken; bins lie along the height and along the width.
    """
    value, align = op.value(0), roi_align_attributes(op)
    (height, width), ratio, scale, shifted = align.bins, align.samples, align.scale, align.shifted
    wide = tf.float64 if value.dtype == "float64" else tf.float32
    corners = tf.cast(op.tensor(1), wide) * tf.constant(scale, wide) - (0.5 if shifted else 0)
    left, top, right, bottom = tf.unstack(corners, 4, axis=1)
    rows = _bins(top, bottom, height, ratio, value.size(2), shifted=shifted)
    columns = _bins(left, right, width, ratio, value.size(3), shifted=shifted)
    pixels = _Pixels(value, tf.cast(op.tensor(2), tf.int32), wide)
    most = (ratio, ratio) if ratio else (_largest_count(rows.samples), _largest_count(columns.samples))

    def sample(row: Size, column: Size, before: TfTensor) -> TfTensor:
        taps = [
            pixels.at(y, x) * tf.expand_dims(down[:, :, None] * across[:, None], -1)
            for y, down in rows.read(row)
            for x, across in columns.read(column)
        ]
        sampled = tf.reshape((row < rows.samples) & (column < columns.samples), [-1, 1, 1, 1])
        if not align.takes_largest:
            return before + tf.where(sampled, tf.add_n(taps), tf.zeros_like(before))
        largest = tf.maximum(tf.maximum(taps[0], taps[1]), tf.maximum(taps[2], taps[3]))
        return tf.where(sampled, tf.maximum(before, largest), before)

    empty = pixels.filled(corners, height, width, wide.min if align.takes_largest else 0.0)
    accumulated = _accumulate(sample, empty, *most)
    samples = tf.reshape(tf.maximum(rows.samples, 0) * tf.maximum(columns.samples, 0), [-1, 1, 1, 1])
    mean = accumulated if align.takes_largest else accumulated / tf.cast(tf.maximum(samples, 1), wide)
    return computed(tf.cast(tf.where(samples > 0, mean, tf.zeros_like(mean)), value.dtype), Layout.CHANNELS_LAST)


class _Pixels:
    """The pixels of the image that each region lies in."""

    def __init__(self, value: Value, image: TfTensor, dtype: TfTensor) -> None:
        self.height, self.width, self.channels = value.size(2), value.size(3), value.size(1)
        self.rows = tf.reshape(tf.cast(value.tensor(Layout.CHANNELS_LAST), dtype), pack_sizes([-1, self.channels]))
        self.first = image[:, None, None] * (self.height * self.width)

    def at(self, y: TfTensor, x: TfTensor) -> TfTensor:
        """Return the pixels (regions, bins, bins, C) at rows (regions, bins) and columns (regions, bins)."""
        return tf.gather(self.rows, self.first + y[:, :, None] * self.width + x[:, None])

    def filled(self, corners: TfTensor, height: int, width: int, number: float) -> TfTensor:
        """Return the same number for every bin of every region."""
        return tf.fill(
            pack_sizes([tf.shape(corners)[0], height, width, self.channels]), tf.constant(number, self.rows.dtype)
        )


def _largest_count(samples: TfTensor) -> TfTensor:
    return tf.reduce_max(tf.concat([samples, [0]], 0))


def _accumulate(sample: _Step, before: TfTensor, rows: Size, columns: Size) -> TfTensor:
    """Accumulate the samples of every bin, one after the other: memory is the result's, for regions of any size."""
    if isinstance(rows, int) and isinstance(columns, int) and rows * columns <= _MOST_UNROLLED:
        for step in range(rows * columns):
            before = sample(step // columns, step % columns, before)
        return before

    def body(step: TfTensor, so_far: TfTensor) -> tuple[TfTensor, TfTensor]:
        return step + 1, sample(step // columns, step % columns, so_far)

    start, invariants = (tf.constant(0), before), (tf.TensorShape([]), before.shape)
    return tf.while_loop(lambda step, _: step < rows * columns, body, start, shape_invariants=invariants)[1]


@lowers("MaxRoiPool", since=1, T=FLOATS)
def max_roi_pool(op: OperatorContext) -> Value:
    """Lower MaxRoiPool: regions (count, 5), their image first, of X (N, C, H, W), each divided into bins.

    The largest of a bin's whole pixels is taken; 0 for a bin without pixels. The rounding is that of Fast R-CNN, where
    the operator comes from.
    """
    value = op.value(0)
    height, width = op.ints("pooled_shape")
    wide = tf.float64 if value.dtype == "float64" else tf.float32
    regions = tf.cast(op.tensor(1), wide)
    scaled = regions[:, 1:] * tf.constant(op.real("spatial_scale", 1.0), wide)
    corners = tf.sign(scaled) * tf.floor(tf.abs(scaled) + 0.5)  # halves away from zero
    left, top, right, bottom = tf.unstack(corners, 4, axis=1)
    first_row, last_row = _whole_bins(top, bottom, height, value.size(2))
    first_column, last_column = _whole_bins(left, right, width, value.size(3))
    pixels = _Pixels(value, tf.cast(regions[:, 0], tf.int32), wide)

    def sample(row: Size, column: Size, before: TfTensor) -> TfTensor:
        y, x = first_row + row, first_column + column
        inside = tf.expand_dims((y < last_row)[:, :, None] & (x < last_column)[:, None], -1)
        pixel = pixels.at(tf.minimum(y, pixels.height - 1), tf.minimum(x, pixels.width - 1))
        return tf.where(inside, tf.maximum(before, pixel), before)

    most = [
        _largest_count(tf.reshape(last - first, [-1]))
        for first, last in ((first_row, last_row), (first_column, last_column))
    ]
    largest = _accumulate(sample, pixels.filled(corners, height, width, wide.min), *most)
    filled = (last_row > first_row)[:, :, None] & (last_column > first_column)[:, None]
    largest = tf.where(tf.expand_dims(filled, -1), largest, tf.zeros_like(largest))
    return computed(tf.cast(largest, value.dtype), Layout.CHANNELS_LAST)


def _whole_bins(start: TfTensor, end: TfTensor, count: int, axis: Size) -> tuple[TfTensor, TfTensor]:
    """Return the first pixel of each bin and the one behind its last, (regions, bins), cut to the image."""
    size = tf.maximum(end - start + 1, 1)[:, None] / count
    bins = tf.cast(tf.range(count), size.dtype)[None]
    first, last = tf.floor(bins * size), tf.math.ceil((bins + 1) * size)
    edges = (tf.cast(edge + start[:, None], tf.int32) for edge in (first, last))
    low, high = (clip_index(edge, axis + 1) for edge in edges)
    return low, high
