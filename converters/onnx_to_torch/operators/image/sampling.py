"""GridSample, AffineGrid and Col2Im."""

from __future__ import annotations

from ....onnx_graph.semantics.resampling_attributes import grid_sample_attributes
from ...operator_context import CodegenContext
from ...statements import as_tuple
from ...writers import FLOATS, OutputCode, writes


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
