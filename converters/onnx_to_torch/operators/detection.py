"""Boxes chosen by their scores."""

from __future__ import annotations

import numpy as np

from ..reader import Op
from ..registry import Written, writes


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
