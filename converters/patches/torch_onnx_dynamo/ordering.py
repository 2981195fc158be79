"""What torch's dynamo exporter has no ONNX of, by order: places in sorted numbers, medians, the most frequent.

ONNX leaves open where TopK puts what is not a number: a median of such is mended here, the others' is the runtime's.
"""

from __future__ import annotations

from typing import Any

from ..torch_shared.onnxscript_opset import Translations, ir, op
from .cumulative_operators import FAR, end_of


def ordering() -> Translations:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.searchsorted.Tensor: _search,
        aten.searchsorted.Scalar: _search,
        aten.bucketize.Tensor: _bucket,
        aten.bucketize.Scalar: _bucket,
        aten.sort.stable: _in_order,
        aten.kthvalue.default: _smallest,
        aten.median.dim: _median,
        aten.median.default: _median_of_all,
        aten.mode.default: _most_frequent,
    }


def _search(  # noqa: PLR0917  (the operator's own arguments)
    sorted_sequence: Any,
    self: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """How many of a row (its last axis) lie below each number, with `right` also those that equal it."""
    row = sorted_sequence if sorter is None else op.GatherElements(sorted_sequence, sorter, axis=-1)
    if isinstance(self, bool | int | float):
        row, number = op.Cast(row, to=ir.DataType.DOUBLE), op.Constant(value=ir.tensor(float(self), ir.DataType.DOUBLE))
    else:
        row = row if sorted_sequence.rank == 1 else op.Unsqueeze(row, [-2])
        number = op.Unsqueeze(self, [-1])
    beyond = op.Greater(row, number) if right or side == "right" else op.GreaterOrEqual(row, number)
    kind = ir.DataType.INT32 if out_int32 else ir.DataType.INT64
    return op.ReduceSum(op.Cast(op.Not(beyond), to=kind), [-1], keepdims=False)


def _bucket(self: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Any:
    return _search(boundaries, self, out_int32=out_int32, right=right)


def _in_order(
    self: Any,
    stable: bool | None = None,  # noqa: ARG001  (TopK leaves equal ones in their order)
    dim: int = -1,
    descending: bool = False,
) -> Any:
    if self.rank == 0:
        return op.Identity(self), op.Constant(value_int=0)
    at = dim % self.rank
    return op.TopK(self, op.Shape(self, start=at, end=at + 1), axis=at, largest=descending, sorted=True)


def _smallest(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th from below, counted from 1, and where it is."""
    if self.rank == 0:
        return op.Identity(self), op.Constant(value_int=0)
    return tuple(_last(each, dim, keepdim) for each in _sorted(self, [k], dim))


def _median(self: Any, dim: int, keepdim: bool = False) -> Any:
    """The lower one of two in the middle. One that is not a number makes the median so; its place is the first's."""
    if self.rank == 0:
        return op.Identity(self), op.Constant(value_int=0)
    at = dim % self.rank
    count = op.Div(op.Add(op.Shape(self, start=at, end=at + 1), [1]), [2])
    value, place = (_last(each, dim, keepdim) for each in _sorted(self, count, dim))
    if not self.dtype.is_floating_point():
        return value, place
    broken = op.Cast(op.IsNaN(self), to=ir.DataType.INT32)
    first = op.ArgMax(broken, axis=dim, keepdims=keepdim)
    is_broken = op.Cast(op.ReduceMax(broken, [dim], keepdims=keepdim), to=ir.DataType.BOOL)
    nothing = op.Constant(value=ir.tensor(float("nan"), dtype=self.dtype))
    return op.Where(is_broken, nothing, value), op.Where(is_broken, first, place)


def _median_of_all(self: Any) -> Any:
    flat = op.Reshape(self, [-1])
    flat.dtype, flat.shape = self.dtype, _unknown(1)
    return _median(flat, 0)[0]


def _most_frequent(self: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent numbers, and where it stands last."""
    if self.rank == 0:
        return op.Identity(self), op.Constant(value_int=0)
    at = dim % self.rank
    alike = op.Equal(op.Unsqueeze(self, [at]), op.Unsqueeze(self, [at + 1]))
    times = op.ReduceSum(op.Cast(alike, to=ir.DataType.INT32), [at], keepdims=False)
    is_most = op.Equal(times, op.ReduceMax(times, [at], keepdims=True))
    others = op.Constant(value=ir.tensor(end_of(self.dtype, lowest=False), dtype=self.dtype))
    value = op.ReduceMin(op.Where(is_most, self, others), [at], keepdims=True)
    stands = op.Cast(op.Equal(self, value), to=ir.DataType.INT32)
    last = op.ArgMax(stands, axis=at, keepdims=True, select_last_index=True)
    return (value, last) if keepdim else (op.Squeeze(value, [at]), op.Squeeze(last, [at]))


def _sorted(self: Any, count: Any, dim: int) -> Any:
    """The `count` smallest of an axis, from the smallest on, and their places."""
    return op.TopK(self, count, axis=dim, largest=False, sorted=True)


def _last(value: Any, dim: int, keepdim: bool) -> Any:
    last = op.Slice(value, [-1], [FAR], [dim])
    return last if keepdim else op.Squeeze(last, [dim])


def _unknown(rank: int) -> Any:
    return ir.Shape([None] * rank)
