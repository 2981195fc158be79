"""tf.image.crop_and_resize: boxes cut out of pictures, each brought to one size.

tf2onnx goes by a loop over the boxes, which knows no sizes inside, and gives single values where the picture ends. Here
it is TensorFlow's own formula (core/kernels/image/crop_and_resize_op.cc), of all boxes at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .graph_writer import Writer

_FLOAT, _INT64 = 1, 7  # onnx.TensorProto


@dataclass(frozen=True)
class _Line:
    """Where a box is asked along an axis, each (boxes, places): the pixels below and above, how far it is between them,
    and whether it is outside of the picture."""

    low: str
    high: str
    share: str
    outside: str


def crop_and_resize(w: Writer, pictures: str, boxes: str, of: str, size: str) -> str:
    """Of pictures (N, H, W, C) the boxes (M, 4), from 0 to 1 between the middles of the outermost pixels, each of the
    picture that `of` (M) names: (M, h, w, C)."""
    is_linear = w.node.get_attr_str("method") == "bilinear"
    w.require(is_linear or w.node.get_attr_str("method") == "nearest", "CropAndResize by another method")
    pictures = w.cast(pictures, _FLOAT)
    down, across = (_line(w, pictures, boxes, w.pick(size, axis), axis) for axis in (0, 1))
    of = w.unsqueezed(w.unsqueezed(w.cast(of, _INT64), 1), 2)

    def pixels(y: str, x: str) -> str:
        places = [of, w.unsqueezed(y, 2), w.unsqueezed(x, 1)]
        shape = w.call("Shape", w.call("Max", *places))
        each = [w.unsqueezed(w.call("Expand", place, shape), 3) for place in places]
        return w.call("GatherND", pictures, w.call("Concat", *each, axis=3))

    if is_linear:
        x, y = _along(w, across.share, 1), _along(w, down.share, 2)
        top, bottom = (
            _between(w, pixels(row, across.low), pixels(row, across.high), x) for row in (down.low, down.high)
        )
        found = _between(w, top, bottom, y)
    else:
        found = pixels(_nearest(w, down), _nearest(w, across))
    outside = w.call("Or", _along(w, down.outside, 2), _along(w, across.outside, 1))
    blank = w.constant(np.float32(w.node.get_attr_value("extrapolation_value", 0.0)))
    return w.call("Where", outside, blank, found)


def _line(w: Writer, pictures: str, boxes: str, count: str, axis: int) -> _Line:
    zero, one = w.constant(np.float32(0)), w.constant(np.float32(1))
    last = w.sub(w.cast(w.size(pictures, 1 + axis), _FLOAT), one)
    begin, end = (w.call("Gather", boxes, w.constant([at]), axis=1) for at in (axis, 2 + axis))
    steps = w.sub(w.cast(count, _FLOAT), one)
    is_one = w.call("Equal", steps, zero)
    step = w.call("Div", w.mul(w.sub(end, begin), last), w.call("Where", is_one, one, steps))
    middle = w.mul(w.mul(w.constant(np.float32(0.5)), w.call("Add", begin, end)), last)
    places = w.call("Range", zero, w.cast(count, _FLOAT), one)
    at = w.call("Add", w.call("Where", is_one, middle, w.mul(begin, last)), w.mul(places, step))
    outside = w.call("Or", w.call("Less", at, zero), w.call("Greater", at, last))
    inside = w.call("Where", outside, zero, at)
    low = w.call("Floor", inside)
    share = w.sub(inside, low)
    return _Line(w.cast(low, _INT64), w.cast(w.call("Ceil", inside), _INT64), share, outside)


def _nearest(w: Writer, line: _Line) -> str:
    """Halves go up."""
    return w.call("Where", w.call("Less", line.share, w.constant(np.float32(0.5))), line.low, line.high)


def _along(w: Writer, line: str, axis: int) -> str:
    """(boxes, places) with an axis more, and one for the channels."""
    return w.unsqueezed(w.unsqueezed(line, axis), 3)


def _between(w: Writer, one: str, other: str, share: str) -> str:
    return w.call("Add", one, w.mul(w.sub(other, one), share))
