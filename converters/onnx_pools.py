"""Adaptive pools for torch's dynamo exporter, which has no ONNX of the largest in windows that follow the size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .onnx_running import end_of
from .onnx_script import ir, op

Operator = Callable[..., Any]


def pools() -> dict[Operator, Operator]:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    return {torch.ops.aten.adaptive_max_pool2d.default: _largest}


def _largest(self: Any, output_size: Sequence[int]) -> tuple[Any, Any]:
    """The largest of each window, and where in the picture it is: of equal ones the first in reading order. First
    along each row (..., H, W) -> (..., H, columns), then along what that leaves."""
    rows, columns = output_size
    height, width = (_size(self, axis) for axis in (-2, -1))
    lowest = op.Constant(value=ir.tensor(end_of(self.dtype, lowest=True), dtype=self.dtype))
    in_rows, column = _along_last(self, width, columns, lowest)
    order = [*range(self.rank - 2), self.rank - 1, self.rank - 2]
    turned, row = (
        op.Transpose(each, perm=order) for each in _along_last(op.Transpose(in_rows, perm=order), height, rows, lowest)
    )
    return turned, op.Add(op.Mul(row, width), op.GatherElements(column, row, axis=-2))


def _along_last(value: Any, size: Any, count: int, lowest: Any) -> tuple[Any, Any]:
    """The largest of each of `count` windows, which may overlap by one, and its place in the last axis."""
    at = op.Constant(value=ir.tensor([[each] for each in range(count)], dtype=ir.DataType.INT64))
    after = op.Add(op.Mul(op.Add(at, op.Constant(value_int=1)), size), op.Constant(value_int=count - 1))
    first, behind = (op.Div(each, op.Constant(value_int=count)) for each in (op.Mul(at, size), after))
    places = op.Range(op.Constant(value_int=0), size, op.Constant(value_int=1))
    inside = op.And(op.GreaterOrEqual(places, first), op.Less(places, behind))
    windows = op.Where(inside, op.Unsqueeze(value, [-2]), lowest)
    return op.ReduceMax(windows, [-1], keepdims=False), op.ArgMax(windows, axis=-1, keepdims=False)


def _size(value: Any, axis: int) -> Any:
    at = value.rank + axis
    return op.Squeeze(op.Shape(value, start=at, end=at + 1))
