"""tf.image.crop_and_resize: boxes cut out of pictures, each brought to one size.

tf2onnx 1.17 loops over the boxes: the loop knows no sizes inside, and writes single values where the picture ends. Here
it is TensorFlow's own formula (core/kernels/image/crop_and_resize_op.cc), of all boxes at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .graph_writer import NodeWriter
from .tf2onnx_graphs import Dtype


@dataclass(frozen=True)
class _SamplePoints:
    """Where boxes are sampled along an axis, each tensor (boxes, places): the pixels below and above, the share of the
    upper one, and whether the point lies outside of the picture."""

    low: str
    high: str
    share: str
    outside: str


def crop_and_resize(w: NodeWriter, pictures: str, boxes: str, picture_of_box: str, size: str) -> str:
    """Lower CropAndResize: pictures (N, H, W, C) and boxes (M, 4) give (M, h, w, C).

    A box runs from 0 to 1 between the middles of the outermost pixels, in the picture that `picture_of_box` (M) names.
    """
    is_linear = w.node.get_attr_str("method") == "bilinear"
    w.require(is_linear or w.node.get_attr_str("method") == "nearest", "CropAndResize by another method")
    pictures = w.cast(pictures, Dtype.FLOAT)
    down, across = (_sample_points(w, pictures, boxes, w.pick(size, axis), axis) for axis in (0, 1))
    picture = w.unsqueezed(w.unsqueezed(w.cast(picture_of_box, Dtype.INT64), 1), 2)

    def pixels(y: str, x: str) -> str:
        indices = [picture, w.unsqueezed(y, 2), w.unsqueezed(x, 1)]
        shape = w.call("Shape", w.call("Max", *indices))
        columns = [w.unsqueezed(w.call("Expand", index, shape), 3) for index in indices]
        return w.call("GatherND", pictures, w.call("Concat", *columns, axis=3))

    if is_linear:
        x, y = _with_channels(w, across.share, 1), _with_channels(w, down.share, 2)
        top, bottom = (
            _interpolated(w, pixels(row, across.low), pixels(row, across.high), x) for row in (down.low, down.high)
        )
        sampled = _interpolated(w, top, bottom, y)
    else:
        sampled = pixels(_nearest(w, down), _nearest(w, across))
    outside = w.call("Or", _with_channels(w, down.outside, 2), _with_channels(w, across.outside, 1))
    blank = w.constant(np.float32(w.node.get_attr_value("extrapolation_value", 0.0)))
    return w.call("Where", outside, blank, sampled)


def _sample_points(w: NodeWriter, pictures: str, boxes: str, count: str, axis: int) -> _SamplePoints:
    zero, unit = w.constant(np.float32(0)), w.constant(np.float32(1))
    last = w.sub(w.cast(w.size(pictures, 1 + axis), Dtype.FLOAT), unit)
    begin, end = (w.call("Gather", boxes, w.constant([at]), axis=1) for at in (axis, 2 + axis))
    steps = w.sub(w.cast(count, Dtype.FLOAT), unit)
    is_one = w.call("Equal", steps, zero)
    step = w.call("Div", w.mul(w.sub(end, begin), last), w.call("Where", is_one, unit, steps))
    middle = w.mul(w.mul(w.constant(np.float32(0.5)), w.call("Add", begin, end)), last)
    places = w.call("Range", zero, w.cast(count, Dtype.FLOAT), unit)
    at = w.call("Add", w.call("Where", is_one, middle, w.mul(begin, last)), w.mul(places, step))
    outside = w.call("Or", w.call("Less", at, zero), w.call("Greater", at, last))
    inside = w.call("Where", outside, zero, at)
    low = w.call("Floor", inside)
    share = w.sub(inside, low)
    return _SamplePoints(w.cast(low, Dtype.INT64), w.cast(w.call("Ceil", inside), Dtype.INT64), share, outside)


def _nearest(w: NodeWriter, points: _SamplePoints) -> str:
    """Choose the nearest pixels; halves go up."""
    return w.call("Where", w.call("Less", points.share, w.constant(np.float32(0.5))), points.low, points.high)


def _with_channels(w: NodeWriter, values: str, axis: int) -> str:
    """Insert `axis` and a last one for the channels into (boxes, places)."""
    return w.unsqueezed(w.unsqueezed(values, axis), 3)


def _interpolated(w: NodeWriter, low: str, high: str, share: str) -> str:
    return w.call("Add", low, w.mul(w.sub(high, low), share))
