"""Pools for torch's dynamo exporter: adaptive ones of open sizes, and means with a divisor of the model's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .. import private_onnxscript
from ..ledger import missing_translations, translations
from ..torch_shared.dynamo_graph import OnnxValue, constant_of, ir, op, size_of
from .cumulative_operators import limit_of
from .grouped_convolutions import per_axis

_PICTURES = 4  # axes


def _adaptive_mean(self: OnnxValue, output_size: Sequence[int]) -> OnnxValue:
    """Write the mean of each window: a plain pool where they tile a picture of known sizes.

    Else it is each axis times the share that its places have in each window. That is for finite numbers only: with
    those shares 0 times infinity is NaN.
    """
    sizes = list(self.shape)[-2:]
    if list(output_size) == [1, 1]:
        return op.ReduceMean(self, [-2, -1], keepdims=1)
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == 2 and self.rank == _PICTURES and not any(map(int.__mod__, known, output_size)):
        tile = [size // count for size, count in zip(known, output_size, strict=True)]
        return op.AveragePool(self, kernel_shape=tile, strides=tile)
    order = [*range(self.rank - 2), self.rank - 1, self.rank - 2]
    rows, columns = (
        _window_shares(op.Constant(value_int=size) if isinstance(size, int) else size_of(self, axis), count, self)
        for axis, size, count in zip((-2, -1), sizes, output_size, strict=True)
    )
    narrow = op.MatMul(self, columns)  # (..., H, columns)
    return op.Transpose(op.MatMul(op.Transpose(narrow, perm=order), rows), perm=order)


def _mean_pool(axes: int) -> Callable[..., OnnxValue]:
    def translation(  # noqa: PLR0917  (the operator's own arguments)
        self: OnnxValue,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> OnnxValue:
        if divisor_override is None:
            own: Callable[..., OnnxValue] = getattr(private_onnxscript.nn, f"aten_avg_pool{axes}d")
            return own(self, kernel_size, stride, padding, ceil_mode, count_include_pad)
        window, step, rim = (per_axis(values, axes) for values in (kernel_size, stride or kernel_size, padding))
        is_sample = self.rank == axes + 1
        total = _window_sums(op.Unsqueeze(self, [0]) if is_sample else self, window, step, rim, ceil_mode)
        mean = op.Div(total, op.CastLike(float(divisor_override), total))
        return op.Squeeze(mean, [0]) if is_sample else mean

    return translation


def _window_sums(
    value: OnnxValue, window: Sequence[int], step: Sequence[int], rim: Sequence[int], ceil_mode: bool
) -> OnnxValue:
    """Write the sum of each window of (N, C, ...), around which is 0.

    With `ceil_mode` the last windows may reach beyond the rim, but begin before it: so no more is laid behind than
    makes one window of the last element.
    """
    behind = list(rim)
    if ceil_mode:
        behind = [min(edge + stride - 1, size - 1) for edge, stride, size in zip(rim, step, window, strict=True)]
    wide = op.Pad(value, op.Constant(value_ints=[0, 0, *rim, 0, 0, *behind]))
    mean = op.AveragePool(wide, kernel_shape=window, strides=step)
    return op.Mul(mean, op.CastLike(float(math.prod(window)), mean))


def _window_shares(size: OnnxValue, count: int, like: OnnxValue) -> OnnxValue:
    """Write what each place of an axis adds to the mean of each window: (size, count); a column's sum is 1."""
    inside = op.CastLike(_in_window(size, count), like)
    return op.Transpose(op.Div(inside, op.ReduceSum(inside, [-1])), perm=[1, 0])


def _adaptive_maximum(self: OnnxValue, output_size: Sequence[int]) -> tuple[OnnxValue, OnnxValue]:
    """Write the largest of each window, and its place in the picture: of equal ones the first in reading order.

    First along each row (..., H, W) -> (..., H, columns), then along what that leaves.
    """
    rows, columns = output_size
    height, width = (size_of(self, axis) for axis in (-2, -1))
    lowest = constant_of(limit_of(self.dtype, lowest=True), self.dtype)
    row_maxima, column = _maxima_of_last_axis(self, width, columns, lowest)
    order = [*range(self.rank - 2), self.rank - 1, self.rank - 2]
    maxima, row = (
        op.Transpose(part, perm=order)
        for part in _maxima_of_last_axis(op.Transpose(row_maxima, perm=order), height, rows, lowest)
    )
    return maxima, op.Add(op.Mul(row, width), op.GatherElements(column, row, axis=-2))


def _maxima_of_last_axis(
    value: OnnxValue, size: OnnxValue, count: int, lowest: OnnxValue
) -> tuple[OnnxValue, OnnxValue]:
    """Write the largest of each of `count` windows, which may overlap by one, and its place in the last axis."""
    windows = op.Where(_in_window(size, count), op.Unsqueeze(value, [-2]), lowest)
    return op.ReduceMax(windows, [-1], keepdims=False), op.ArgMax(windows, axis=-1, keepdims=False)


def _in_window(size: OnnxValue, count: int) -> OnnxValue:
    """Write whether a place is in a window: (count, size).

    The window i is from floor(i size / count) to ceil((i + 1) size / count) - 1, as in PyTorch's AdaptivePooling.h.
    """
    at = constant_of([[index] for index in range(count)], ir.DataType.INT64)
    after = op.Add(op.Mul(op.Add(at, op.Constant(value_int=1)), size), op.Constant(value_int=count - 1))
    first, end = (op.Div(place, op.Constant(value_int=count)) for place in (op.Mul(at, size), after))
    places = op.Range(op.Constant(value_int=0), size, op.Constant(value_int=1))
    return op.And(op.GreaterOrEqual(places, first), op.Less(places, end))


PATCHES = (
    *missing_translations({"aten.adaptive_max_pool2d.default": _adaptive_maximum}),
    *translations(
        {"aten.adaptive_avg_pool2d.default": _adaptive_mean, "aten._adaptive_avg_pool2d.default": _adaptive_mean},
        why="torch decomposes it for the size that was traced: the mean is right at that size alone",
        upstream="torch/_decomp/decompositions.py: adaptive_avg_pool2d",
        until="torchlib translates it for open sizes",
    ),
    *translations(
        {"aten.avg_pool2d.default": _mean_pool(2), "aten.avg_pool3d.default": _mean_pool(3)},
        why="torchlib divides a sum by no number of the model's own: divisor_override",
        upstream="onnxscript/function_libs/torch_lib/ops/nn.py: aten_avg_pool2d",
        until="torchlib takes divisor_override",
    ),
)
