"""Labels that are classes, and the axis of an output that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..array_file import pieces
from ..signature import Array

_VOID = 255


@dataclass(frozen=True)
class LabelRange:
    """Labels that are classes: the shape of a sample's, and the least and the largest, 0 among them."""

    shape: tuple[int, ...]
    least: int
    largest: int

    @classmethod
    def of(cls, labels: Array) -> LabelRange | None:
        """Read labels piece by piece; None where they are no whole numbers."""
        least = largest = 0
        shape: tuple[int, ...] = ()
        for piece in pieces(labels):
            classes = as_classes(piece)
            if classes is None:
                return None
            least, largest = min(least, int(classes.min(initial=0))), max(largest, int(classes.max(initial=0)))
            shape = classes.shape[1:]
        return cls(shape, least, largest)

    @property
    def are_bits(self) -> bool:
        """Whether every label is 0 or 1."""
        return self.least >= 0 and self.largest <= 1


def as_classes(labels: Array) -> Array | None:
    """Return labels as int64, without a trailing axis of 1; None where they are no whole numbers.
    In images 255 is a pixel without a label, as in Pascal VOC and Cityscapes; it becomes -1."""
    if labels.dtype.kind not in "biuf" or (labels.dtype.kind == "f" and not np.array_equal(labels, np.round(labels))):
        return None
    classes = (labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels).astype(np.int64)
    return np.where(classes == _VOID, -1, classes) if classes.ndim > 2 else classes


def class_axis(output: Sequence[int | None], labels: Sequence[int | None]) -> int | None:
    """Return the axis of the classes in an output whose other axes are those of the labels; None where none is.

    A None stands for any size. Of several axes that fit, images have theirs at 1 and tokens at the end.
    """
    if len(output) != len(labels) + 1:
        return None
    last = len(output) - 1
    for axis in (last, 1) if last == 2 else (1, last):
        rest = [*output[:axis], *output[axis + 1 :]]
        if all(None in pair or pair[0] == pair[1] for pair in zip(rest, labels, strict=True)):
            return axis
    return None
