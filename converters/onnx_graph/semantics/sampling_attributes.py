"""GridSample, RoiAlign and DFT: operators whose wordings name modes or axes in several ways."""

from __future__ import annotations

from dataclasses import dataclass

from ..node_reader import NodeReader, S, V

_IMAGE_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # the names before opset 20


@dataclass(frozen=True, slots=True)
class GridSampleAttributes:
    """How GridSample reads between elements and beyond the border."""

    mode: str  # linear, nearest or cubic
    padding: str  # zeros, border or reflection
    align_corners: bool


def grid_sample_attributes(op: NodeReader[V, S]) -> GridSampleAttributes:
    """Read GridSample: before opset 20 the modes had the names that they have for images."""
    names = ("linear", "nearest", "cubic") if op.version >= 20 else ("bilinear", "nearest", "bicubic")
    mode = op.word("mode", names[0], names)
    padding = op.word("padding_mode", "zeros", ("zeros", "border", "reflection"))
    return GridSampleAttributes(_IMAGE_MODES.get(mode, mode), padding, op.flag("align_corners"))


@dataclass(frozen=True, slots=True)
class RoiAlignAttributes:
    """How RoiAlign divides regions into bins, and reads samples in them."""

    bins: tuple[int, int]  # along the height and the width
    samples: int  # in a bin along each axis; 0: about one for each pixel
    scale: float
    shifted: bool  # whether coordinates are shifted by half a pixel
    takes_largest: bool  # else the mean


def roi_align_attributes(op: NodeReader[V, S]) -> RoiAlignAttributes:
    """Read RoiAlign: before opset 16 coordinates were not shifted by half a pixel."""
    modes = ("half_pixel", "output_half_pixel")
    shifted = op.version >= 16 and op.word("coordinate_transformation_mode", modes[0], modes) == "half_pixel"
    bins = (op.integer("output_height"), op.integer("output_width"))
    largest = op.word("mode", "avg", ("avg", "max")) == "max"
    return RoiAlignAttributes(bins, max(op.integer("sampling_ratio"), 0), op.real("spatial_scale"), shifted, largest)


def transformed_axis(op: NodeReader[V, S]) -> int:
    """Return the axis that DFT transforms: an attribute before opset 20, an input since then.

    Raises Refused where it is the last axis, which holds the real and imaginary parts.
    """
    rank = op.value(0).rank
    named = op.integer("axis") if op.version < 20 else op.integers(2, "axis")[0] if op.has_input(2) else -2
    axis = op.placed(named, rank)
    if axis == rank - 1:
        op.refuse("its axis is the one of real and imaginary parts", fix="check the model")
    return axis
