"""Operators by order, for torch's dynamo exporter: places in sorted numbers, medians, the most frequent number.

ONNX leaves open where TopK puts NaN: a median of NaN is mended here, the other operators' is the runtime's.
"""

from __future__ import annotations

from ..ledger import missing_translations, translations
from ..torch_shared.dynamo_graph import Number, OnnxValue, constant_of, ir, op
from .cumulative_operators import FAR, limit_of


def _searchsorted(  # noqa: PLR0917  (the operator's own arguments)
    sorted_sequence: OnnxValue,
    self: Number,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: OnnxValue | None = None,
) -> OnnxValue:
    """Count the elements of a row (its last axis) below each number, with `right` also those that equal it."""
    row = sorted_sequence if sorter is None else op.GatherElements(sorted_sequence, sorter, axis=-1)
    if isinstance(self, bool | int | float):
        row, number = op.Cast(row, to=ir.DataType.DOUBLE), constant_of(float(self), ir.DataType.DOUBLE)
    else:
        row = row if sorted_sequence.rank == 1 else op.Unsqueeze(row, [-2])
        number = op.Unsqueeze(self, [-1])
    is_beyond = op.Greater(row, number) if right or side == "right" else op.GreaterOrEqual(row, number)
    dtype = ir.DataType.INT32 if out_int32 else ir.DataType.INT64
    return op.ReduceSum(op.Cast(op.Not(is_beyond), to=dtype), [-1], keepdims=False)


def _bucketize(self: Number, boundaries: OnnxValue, out_int32: bool = False, right: bool = False) -> OnnxValue:
    return _searchsorted(boundaries, self, out_int32=out_int32, right=right)


def _sort(
    self: OnnxValue,
    stable: bool | None = None,  # noqa: ARG001  (TopK leaves equal ones in their order)
    dim: int = -1,
    descending: bool = False,
) -> tuple[OnnxValue, OnnxValue]:
    if self.rank == 0:
        return op.Identity(self), op.Constant(value_int=0)
    at = dim % self.rank
    return op.TopK(self, op.Shape(self, start=at, end=at + 1), axis=at, largest=descending, sorted=True)


def _kthvalue(self: OnnxValue, k: int, dim: int = -1, keepdim: bool = False) -> tuple[OnnxValue, OnnxValue]:
    """Write the k-th number from below, counted from 1, and its place."""
    if self.rank == 0:
        return op.Identity(self), op.Constant(value_int=0)
    values, places = _smallest(self, [k], dim)
    return _last(values, dim, keepdim), _last(places, dim, keepdim)


def _median(self: OnnxValue, dim: int, keepdim: bool = False) -> tuple[OnnxValue, OnnxValue]:
    """Write the lower one of two in the middle. A NaN makes the median NaN; the place is the first NaN's."""
    if self.rank == 0:
        return op.Identity(self), op.Constant(value_int=0)
    at = dim % self.rank
    count = op.Div(op.Add(op.Shape(self, start=at, end=at + 1), [1]), [2])
    value, place = (_last(part, dim, keepdim) for part in _smallest(self, count, dim))
    if not self.dtype.is_floating_point():
        return value, place
    is_nan = op.Cast(op.IsNaN(self), to=ir.DataType.INT32)
    first_nan = op.ArgMax(is_nan, axis=dim, keepdims=keepdim)
    has_nan = op.Cast(op.ReduceMax(is_nan, [dim], keepdims=keepdim), to=ir.DataType.BOOL)
    nan = constant_of(float("nan"), self.dtype)
    return op.Where(has_nan, nan, value), op.Where(has_nan, first_nan, place)


def _median_of_all(self: OnnxValue) -> OnnxValue:
    flat = op.Reshape(self, [-1])
    flat.dtype, flat.shape = self.dtype, ir.Shape([None])
    return _median(flat, 0)[0]


def _mode(self: OnnxValue, dim: int = -1, keepdim: bool = False) -> tuple[OnnxValue, OnnxValue]:
    """Write the smallest of the most frequent numbers, and its last place."""
    if self.rank == 0:
        return op.Identity(self), op.Constant(value_int=0)
    at = dim % self.rank
    is_equal = op.Equal(op.Unsqueeze(self, [at]), op.Unsqueeze(self, [at + 1]))
    times = op.ReduceSum(op.Cast(is_equal, to=ir.DataType.INT32), [at], keepdims=False)
    is_most = op.Equal(times, op.ReduceMax(times, [at], keepdims=True))
    highest = constant_of(limit_of(self.dtype, lowest=False), self.dtype)
    value = op.ReduceMin(op.Where(is_most, self, highest), [at], keepdims=True)
    is_value = op.Cast(op.Equal(self, value), to=ir.DataType.INT32)
    place = op.ArgMax(is_value, axis=at, keepdims=True, select_last_index=True)
    return (value, place) if keepdim else (op.Squeeze(value, [at]), op.Squeeze(place, [at]))


def _smallest(self: OnnxValue, count: object, dim: int) -> tuple[OnnxValue, OnnxValue]:
    """Write the `count` smallest of an axis, from the smallest on, and their places."""
    return op.TopK(self, count, axis=dim, largest=False, sorted=True)


def _last(value: OnnxValue, dim: int, keepdim: bool) -> OnnxValue:
    last = op.Slice(value, [-1], [FAR], [dim])
    return last if keepdim else op.Squeeze(last, [dim])


PATCHES = (
    *missing_translations(
        {
            "aten.searchsorted.Tensor": _searchsorted,
            "aten.searchsorted.Scalar": _searchsorted,
            "aten.bucketize.Tensor": _bucketize,
            "aten.bucketize.Scalar": _bucketize,
            "aten.kthvalue.default": _kthvalue,
            "aten.median.dim": _median,
            "aten.median.default": _median_of_all,
            "aten.mode.default": _mode,
        },
    ),
    *translations(
        {"aten.sort.stable": _sort},
        why="torchlib has no translation of the overload with `stable`",
        upstream="onnxscript/function_libs/torch_lib/ops/core.py: aten_sort",
        until="torchlib translates it",
    ),
)
