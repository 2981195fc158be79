"""Pools for torch's dynamo exporter, which has no ONNX of the largest in windows that follow the size, whose mean of
such windows is right at the size that was traced alone, and which divides a sum by no number of the model's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...lazy_import import LazyLibrary
from ..torch_shared.onnxscript_opset import Translations, ir, op, size_of
from .cumulative_operators import end_of

_nn: Any = LazyLibrary("onnxscript.function_libs.torch_lib.ops", "nn")
_PICTURES = 4  # axes


def pools() -> Translations:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.adaptive_max_pool2d.default: _largest,
        aten.adaptive_avg_pool2d.default: _mean,
        aten._adaptive_avg_pool2d.default: _mean,
        aten.avg_pool2d.default: _divided(_nn.aten_avg_pool2d, axes=2),
        aten.avg_pool3d.default: _divided(_nn.aten_avg_pool3d, axes=3),
    }


def _mean(self: Any, output_size: Sequence[int]) -> Any:
    """The mean of each window: a plain pool where they tile a picture of known sizes, else each axis times the share
    that its places have in each window. Finite numbers only: with those shares 0 times infinity is not a number."""
    sizes = list(self.shape)[-2:]
    if list(output_size) == [1, 1]:
        return op.ReduceMean(self, [-2, -1], keepdims=1)
    known = all(isinstance(size, int) for size in sizes)
    if known and self.rank == _PICTURES and not any(map(int.__mod__, sizes, output_size)):
        tile = [size // count for size, count in zip(sizes, output_size, strict=True)]
        return op.AveragePool(self, kernel_shape=tile, strides=tile)
    turned = [*range(self.rank - 2), self.rank - 1, self.rank - 2]
    rows, columns = (
        _shares(op.Constant(value_int=size) if isinstance(size, int) else size_of(self, axis), count, self)
        for axis, size, count in zip((-2, -1), sizes, output_size, strict=True)
    )
    narrow = op.MatMul(self, columns)  # (..., H, columns)
    return op.Transpose(op.MatMul(op.Transpose(narrow, perm=turned), rows), perm=turned)


def _divided(own: Callable[..., Any], axes: int) -> Callable[..., Any]:
    def pool(  # noqa: PLR0917  (the operator's own arguments)
        self: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        if divisor_override is None:
            return own(self, kernel_size, stride, padding, ceil_mode, count_include_pad)
        window, step, rim = (_of_each(each, axes) for each in (kernel_size, stride or kernel_size, padding))
        alone = self.rank == axes + 1
        summed = _summed(op.Unsqueeze(self, [0]) if alone else self, window, step, rim, ceil_mode)
        made = op.Div(summed, op.CastLike(float(divisor_override), summed))
        return op.Squeeze(made, [0]) if alone else made

    return pool


def _of_each(values: Sequence[int], axes: int) -> list[int]:
    """One number for each axis, of which one may stand for all."""
    return [*values] * axes if len(values) == 1 else [*values]


def _summed(value: Any, window: Sequence[int], step: Sequence[int], rim: Sequence[int], ceil_mode: bool) -> Any:
    """The sum of each window of (N, C, ...), around which is 0. With `ceil_mode` the last windows may reach beyond the
    rim, but begin before it: so no more is laid behind than makes one window of the last element."""
    behind = list(rim)
    if ceil_mode:
        behind = [min(edge + each - 1, size - 1) for edge, each, size in zip(rim, step, window, strict=True)]
    wide = op.Pad(value, op.Constant(value_ints=[0, 0, *rim, 0, 0, *behind]))
    mean = op.AveragePool(wide, kernel_shape=window, strides=step)
    return op.Mul(mean, op.CastLike(float(math.prod(window)), mean))


def _shares(size: Any, count: int, like: Any) -> Any:
    """What each place of an axis adds to the mean of each window: (size, count), and the sum of a column is 1."""
    inside = op.CastLike(_inside(size, count), like)
    return op.Transpose(op.Div(inside, op.ReduceSum(inside, [-1])), perm=[1, 0])


def _largest(self: Any, output_size: Sequence[int]) -> tuple[Any, Any]:
    """The largest of each window, and where in the picture it is: of equal ones the first in reading order. First
    along each row (..., H, W) -> (..., H, columns), then along what that leaves."""
    rows, columns = output_size
    height, width = (size_of(self, axis) for axis in (-2, -1))
    lowest = op.Constant(value=ir.tensor(end_of(self.dtype, lowest=True), dtype=self.dtype))
    in_rows, column = _along_last(self, width, columns, lowest)
    order = [*range(self.rank - 2), self.rank - 1, self.rank - 2]
    turned, row = (
        op.Transpose(each, perm=order) for each in _along_last(op.Transpose(in_rows, perm=order), height, rows, lowest)
    )
    return turned, op.Add(op.Mul(row, width), op.GatherElements(column, row, axis=-2))


def _along_last(value: Any, size: Any, count: int, lowest: Any) -> tuple[Any, Any]:
    """The largest of each of `count` windows, which may overlap by one, and its place in the last axis."""
    windows = op.Where(_inside(size, count), op.Unsqueeze(value, [-2]), lowest)
    return op.ReduceMax(windows, [-1], keepdims=False), op.ArgMax(windows, axis=-1, keepdims=False)


def _inside(size: Any, count: int) -> Any:
    """Whether a place is in a window: (count, size). The one at i is from floor(i size / count) to
    ceil((i + 1) size / count) - 1, as PyTorch's AdaptivePooling.h has it."""
    at = op.Constant(value=ir.tensor([[each] for each in range(count)], dtype=ir.DataType.INT64))
    after = op.Add(op.Mul(op.Add(at, op.Constant(value_int=1)), size), op.Constant(value_int=count - 1))
    first, behind = (op.Div(each, op.Constant(value_int=count)) for each in (op.Mul(at, size), after))
    places = op.Range(op.Constant(value_int=0), size, op.Constant(value_int=1))
    return op.And(op.GreaterOrEqual(places, first), op.Less(places, behind))
