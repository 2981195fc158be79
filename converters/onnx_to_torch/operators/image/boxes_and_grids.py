"""Boxes and grids over images: NonMaxSuppression and RoiAlign; GridSample, AffineGrid and Col2Im."""

from __future__ import annotations

import numpy as np

from ....onnx_graph.semantics.resampling_attributes import grid_sample_attributes, roi_align_attributes
from ...safe_names import number
from ...values import as_tuple
from ...writers import FLOATS, INDICES, CodegenContext, OutputCode, writes

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


@writes("GridSample", since=16, T1=FLOATS, T2=FLOATS)
def grid_sample(op: CodegenContext) -> OutputCode:
    """Write GridSample: x read at the places of a grid whose corners are -1 and 1."""
    x, grid, sampling = op.value(0), op.value(1), grid_sample_attributes(op)
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(sampling.mode, sampling.mode)
    if x.rank not in (4, 5) or (x.rank == 5 and mode == "bicubic"):
        op.refuse(f"it samples {x.rank - 2} axes by {mode}", fix="sample two axes, or linearly")
    options = f'mode="{mode}", padding_mode="{sampling.padding}", align_corners={sampling.align_corners}'
    return f"F.grid_sample({x}, {grid}, {options})"


@writes("AffineGrid", since=20, T1=FLOATS)
def affine_grid(op: CodegenContext) -> OutputCode:
    """Write AffineGrid: the places that an affine map reads."""
    return f"F.affine_grid({op.value(0)}, {as_tuple(op.sizes(1, 'size'))}, {op.flag('align_corners')})"


@writes("Col2Im", since=18, T=FLOATS)
def columns_to_image(op: CodegenContext) -> OutputCode:
    """Write Col2Im: blocks laid over each other and added up."""
    image, block = op.sizes(1, "image shape"), op.integers(2, "block shape")
    pads, count = op.ints("pads", [0] * 4), len(block)
    if count != 2 or pads[:2] != pads[2:]:
        op.refuse(f"it has {count} axes, with the pads {pads}", fix="use two axes and the same pads on both sides")
    dilations, strides = op.ints("dilations", [1, 1]), op.ints("strides", [1, 1])
    options = f"dilation={tuple(dilations)}, padding={tuple(pads[:2])}, stride={tuple(strides)}"
    return f"F.fold({op.value(0)}, {as_tuple(image)}, {tuple(block)}, {options})"
