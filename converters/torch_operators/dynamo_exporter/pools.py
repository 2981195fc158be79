"""Adaptive pools for torch's dynamo exporter, which has no ONNX of the largest in windows that follow the size, and
whose mean of such windows is right at the size that was traced alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..shared.script import Translations, ir, op, size_of
from .running import end_of

_PICTURES = 4  # axes


def pools() -> Translations:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    return {
        torch.ops.aten.adaptive_max_pool2d.default: _largest,
        torch.ops.aten.adaptive_avg_pool2d.default: _mean,
        torch.ops.aten._adaptive_avg_pool2d.default: _mean,
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
