"""NonMaxSuppression and RoiAlign."""

from __future__ import annotations

import numpy as np

from ....onnx_graph.semantics.resampling_attributes import roi_align_attributes
from ...operator_context import CodegenContext
from ...safe_names import number
from ...writers import INDICES, OutputCode, writes

_SAMPLED = frozenset({"float32", "float64"})


@writes("NonMaxSuppression", since=10)
def non_max_suppression(op: CodegenContext) -> OutputCode:
    """Write NonMaxSuppression: rows of (image, class, box), by falling score."""
    boxes, scores = op.value(0), op.value(1)
    (limit,) = op.sizes(2, "number of boxes of a class") if op.has_input(2) else (0,)
    overlap, least = op.bound(3) or "0.0", op.bound(4)
    centred = op.flag("center_point_box")
    if limit == 0:
        return op.known(np.zeros((0, 3), np.int64))
    count = op.writer.combine("max", op.writer.combine("min", limit, scores.size(2)), 0)
    return f"chosen_boxes({boxes}, {scores}, {count}, {overlap}, {least}, {centred})"


@writes("RoiAlign", since=10, T1=_SAMPLED, T2=INDICES)
def regions_aligned(op: CodegenContext) -> OutputCode:
    """Write RoiAlign: regions divided into bins, whose samples are averaged, or the largest is taken."""
    (x, regions, images), align = (op.value(at) for at in range(3)), roi_align_attributes(op)
    scale = number(align.scale, x.dtype)
    if align.samples < 1:
        op.refuse("how many samples a bin has hangs on the sizes of the regions", fix="set sampling_ratio, as to 2")
    options = f"{align.bins}, {align.samples}, {scale}, {align.shifted}, {align.takes_largest}"
    return f"aligned_regions({x}, {regions}, {images}, {options})"
