"""Boxes chosen by their scores, and what lies in them."""

from __future__ import annotations

import numpy as np

from ...operator_context import Op
from ...writers import INDICES, Written, writes

_SAMPLED = frozenset({"float32", "float64"})


@writes("NonMaxSuppression", since=10)
def non_max_suppression(op: Op) -> Written:
    """Rows of (picture, class, box): of each class of each picture the boxes by falling score, less those that overlap
    one before by more than a share."""
    boxes, scores = op.value(0), op.value(1)
    (limit,) = op.sizes(2, "number of boxes of a class") if op.given(2) else (0,)
    overlap, least = op.bound(3) or "0.0", op.bound(4)
    centred = op.flag("center_point_box")
    if limit == 0:
        return op.known(np.zeros((0, 3), np.int64))
    count = op.page.combine("max", op.page.combine("min", limit, scores.size(2)), 0)
    return f"chosen_boxes({boxes}, {scores}, {count}, {overlap}, {least}, {centred})"


@writes("RoiAlign", since=16, T1=_SAMPLED, T2=INDICES)
def regions_aligned(op: Op) -> Written:
    """Regions of pictures, each divided into bins of which samples are averaged, or the largest is taken."""
    mode = op.word("coordinate_transformation_mode", "half_pixel", ("half_pixel", "output_half_pixel"))
    return _aligned(op, shifted=mode == "half_pixel")


@writes("RoiAlign", since=10, until=15, T1=_SAMPLED, T2=INDICES)
def regions_unshifted(op: Op) -> Written:
    """Before opset 16 coordinates were not shifted by half a pixel."""
    return _aligned(op, shifted=False)


def _aligned(op: Op, *, shifted: bool) -> str:
    x, regions, images = (op.value(at) for at in range(3))
    bins = (op.integer("output_height", 1), op.integer("output_width", 1))
    samples, scale = op.integer("sampling_ratio", 0), op.literal("spatial_scale", 1.0, x.dtype)
    largest = op.word("mode", "avg", ("avg", "max")) == "max"
    if samples < 1:
        op.refuse("how many samples a bin has hangs on the sizes of the regions", fix="set sampling_ratio, as to 2")
    return f"aligned_regions({x}, {regions}, {images}, {bins}, {samples}, {scale}, {shifted}, {largest})"
