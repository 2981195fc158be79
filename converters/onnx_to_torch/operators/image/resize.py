"""Resize and Upsample: by scales or to sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import numpy as np

from ....onnx_graph.semantics.resampling_attributes import ResizeAttributes, ResizeMethod, resize_attributes
from ...values import Expression, SizeTerm, as_tuple, atom
from ...writers import FLOATS, HELD, NUMBERS, CodegenContext, OutputCode, writes
from ..tensor.shape import same_symbol


@dataclass(frozen=True, slots=True)
class AxisCode:
    """One axis, resized."""

    at: int
    size: SizeTerm
    target: SizeTerm  # the new size
    scale: str  # that places are divided by
    length: str  # the new size before it is cut to a whole number
    exact: bool  # whether scale is target / size
    region: str = ""


@writes("Resize", since=11, T1=HELD, T2=FLOATS)
@writes("Resize", since=10, until=10, T=HELD)
@writes("Upsample", since=7, T=HELD)
def resize(op: CodegenContext) -> OutputCode:
    """Write Resize or Upsample, along all axes or those that are named."""
    value, resizing = op.value(0), resize_attributes(op, NUMBERS)
    regions = _regions(op, len(resizing.axes), resizing.method)
    if resizing.policy != "stretch":
        op.refuse(f"its keep_aspect_ratio_policy is {resizing.policy}", fix="give the sizes that come of it")
    if resizing.by_sizes:
        axes = [_to(value, *row) for row in zip(resizing.axes, op.sizes(3, "sizes"), regions, strict=True)]
    else:
        axes = _by_scales(op, resizing, regions)
    return _resized(op, value, axes, resizing.method)


def _regions(op: CodegenContext, count: int, method: ResizeMethod) -> list[str]:
    """Return what is cut out of each axis, in shares of it: only one of the modes cuts."""
    if method.outside is None:
        return [""] * count
    region = [float(number) for number in op.array(1, "region")]
    return [f"({low!r}, {high!r})" for low, high in zip(region[:count], region[count:], strict=True)]


def _by_scales(op: CodegenContext, resizing: ResizeAttributes, regions: Sequence[str]) -> list[AxisCode]:
    """Return the axes for sizes times scales, cut to whole numbers."""
    value, corners = op.value(0), resizing.exact_corners
    scales = resizing.scales
    if resizing.scales_at is not None:
        scales = tuple(float(number) for number in op.array(resizing.scales_at, "scales"))
    axes = []
    for axis, scale, region in zip(resizing.axes, scales or (), regions, strict=True):
        size = value.size(axis)
        target: SizeTerm
        if scale == int(scale):
            target = op.writer.combine("*", size, int(scale))
            length = str(target)
        elif isinstance(size, int):
            target = floor(np.float32(size) * np.float32(scale))
            length = repr(size * scale)
        elif (1 / scale) == int(1 / scale):
            target = op.writer.combine("//", size, int(1 / scale))
            length = f"{atom(size)} / {int(1 / scale)}"
        else:
            op.refuse(f"the size of axis {axis} is not known, and its scale is {scale}", fix="give that axis its size")
        axes.append(AxisCode(axis, size, target, repr(scale), str(target) if corners else length, corners, region))
    return axes


def _to(value: Expression, axis: int, target: SizeTerm, region: str) -> AxisCode:
    size = value.size(axis)
    if size == target or same_symbol(size, target):
        return AxisCode(axis, size, size, "1.0", str(size), True, region)
    return AxisCode(axis, size, target, f"{atom(target)} / {atom(size)}", str(target), True, region)


def _resized(op: CodegenContext, value: Expression, axes: Sequence[AxisCode], method: ResizeMethod) -> OutputCode:
    axes = [axis for axis in axes if axis.scale != "1.0" or axis.region or axis.size != axis.target]
    if not axes or 0 in value.shape:
        return value if not axes else op.refuse("it resizes an empty tensor", fix="leave it out")
    own = _by_torch(value, axes, method)
    if own:
        return own
    x, wide = value, "float64" if value.dtype in ("float64", "int32", "int64") else "float32"
    code = f"{x}"
    if method.mode != "nearest" and value.dtype != wide:
        code = f"{op.let(f'{code}.to(torch.{wide})', 'widened')}"
    for axis in axes[:-1]:
        code = f"{op.let(_along(code, axis, method), 'resampled')}"
    code = _along(code, axes[-1], method)
    if method.mode == "nearest" or value.dtype == wide:
        return code
    return f"{code}.to(torch.{value.dtype})" if value.dtype in FLOATS else f"rounded_to({code}, torch.{value.dtype})"


def _along(code: str, axis: AxisCode, method: ResizeMethod) -> str:
    common = f'{code}, {axis.at}, {axis.target}, {axis.scale}, {axis.length}, "{method.coordinates}"'
    more = f", region={axis.region}, outside={method.outside!r}" if axis.region else ""
    if method.mode == "nearest":
        return f'resampled_nearest({common}, "{method.rounding}"{more})'
    options = f"{method.mode == 'linear'}, {method.cubic!r}, {method.exclude_outside}, {method.antialias}"
    return f"resampled_smoothly({common}, {options}{more})"


def _by_torch(value: Expression, axes: Sequence[AxisCode], method: ResizeMethod) -> str:
    """Return a call of F.interpolate where it computes the same: the last axes of images of floats; "" elsewhere."""
    rank = value.rank
    spatial = value.dtype in ("float32", "float64") and rank in (3, 4, 5) and all(axis.at >= 2 for axis in axes)
    if not spatial or method.exclude_outside or method.antialias or method.mode == "nearest":
        return ""
    corners = method.coordinates == "align_corners"
    halves = method.coordinates in ("half_pixel", "pytorch_half_pixel")
    if not (corners or halves) or not all(axis.exact or _is_whole(axis) for axis in axes):
        return ""
    if method.coordinates == "pytorch_half_pixel" and any(axis.target == 1 for axis in axes):
        return ""
    if method.mode == "cubic" and (rank != 4 or method.cubic != -0.75):
        return ""
    name = "bicubic" if method.mode == "cubic" else {3: "linear", 4: "bilinear", 5: "trilinear"}[rank]
    targets = {axis.at: axis.target for axis in axes}
    size = as_tuple([targets.get(at, value.size(at)) for at in range(2, rank)])
    return f'F.interpolate({value}, {size}, mode="{name}", align_corners={corners})'


def _is_whole(axis: AxisCode) -> bool:
    """Return whether the new size is the old one times the scale, without a cut."""
    return axis.length == str(axis.target) or (isinstance(axis.target, int) and axis.length == repr(float(axis.target)))
