"""Elements counted, selected, scattered and rolled by place, for torch's dynamo exporter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import private_onnxscript
from ..ledger import missing_translations, translations
from ..torch_shared.dynamo_graph import Number, OnnxValue, constant_of, ir, op
from .cumulative_operators import limit_of

if TYPE_CHECKING:
    from onnxscript.ir import DataType


def _bincount(self: OnnxValue, weights: OnnxValue | None = None, minlength: Number = 0) -> OnnxValue:
    """Count how often each number occurs, from 0 to the largest, and up to `minlength` at least.

    With weights it is the sum of the numbers' weights, of float64 unless they are of float32.
    """
    number = op.Cast(self, to=ir.DataType.INT64)
    largest = op.ReduceMax(op.Concat(op.Constant(value_ints=[-1]), number, axis=0), keepdims=True)  # -1 without any
    least = op.Constant(value_ints=[minlength]) if isinstance(minlength, int) else op.Reshape(minlength, [1])
    if weights is None:
        added = op.Expand(op.Constant(value_int=1), op.Shape(number))
    else:
        added = weights if weights.dtype == ir.DataType.FLOAT else op.Cast(weights, to=ir.DataType.DOUBLE)
    start = op.Expand(op.CastLike(0, added), op.Max(op.Add(largest, [1]), least))
    return op.ScatterElements(start, number, added, axis=0, reduction="add")


def _index_reduce(  # noqa: PLR0917  (the operator's own arguments)
    self: OnnxValue, dim: int, index: OnnxValue, source: OnnxValue, reduce: str, include_self: bool = True
) -> OnnxValue:
    """Reduce slices of `source` into their places along `dim`."""
    line = [1] * source.rank
    line[dim] = -1
    places = op.Expand(op.Reshape(op.Cast(index, to=ir.DataType.INT64), line), op.Shape(source))
    return _scatter(self, dim, places, source, reduce, include_self)


def _masked_select(self: OnnxValue, mask: OnnxValue) -> OnnxValue:
    """Select the numbers where a mask holds, in one row."""
    value = op.Expand(self, op.Shape(mask))
    full_mask = op.Expand(mask, op.Shape(value))
    return op.Compress(op.Reshape(value, [-1]), op.Reshape(full_mask, [-1]))


def _scatter(  # noqa: PLR0917  (the operator's own arguments)
    self: OnnxValue, dim: int, index: OnnxValue, src: OnnxValue, reduce: str, include_self: bool = True
) -> OnnxValue:
    """Lower scatter_reduce: reduce the elements of `src` into their places along `dim`."""
    dtype, rank = self.dtype, self.rank
    if rank == 0:
        self, index, src = (op.Reshape(value, [1]) for value in (self, index, src))
    elif index.shape != src.shape:  # elements of src beyond the index are not read
        src = op.Slice(src, [0] * rank, op.Shape(index), list(range(rank)))
    if not include_self:
        starts = {"amin": limit_of(dtype, lowest=False), "amax": limit_of(dtype, lowest=True), "prod": 1}
        self = op.ScatterElements(self, index, _filled(starts.get(reduce, 0), dtype, index), axis=dim)
    result = op.ScatterElements(self, index, src, axis=dim, reduction=_REDUCTIONS[reduce])
    if reduce == "mean":
        start = _filled(int(include_self), dtype, self)
        times = op.ScatterElements(start, index, _filled(1, dtype, index), axis=dim, reduction="add")
        result = _mean(result, op.Max(times, _filled(1, dtype, self)), dtype)
    return op.Squeeze(result, [0]) if rank == 0 else result


_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amin": "min", "amax": "max"}


def _mean(total: OnnxValue, count: OnnxValue, dtype: DataType) -> OnnxValue:
    """Divide a sum by its count; of integers rounded down."""
    if dtype.is_floating_point():
        return op.Div(total, count)
    return op.Div(op.Sub(total, op.Mod(total, count)), count)


def _filled(value: float, dtype: DataType, like: OnnxValue) -> OnnxValue:
    return op.Expand(constant_of(value, dtype), op.Shape(like))


def _roll(self: OnnxValue, shifts: Sequence[Number], dims: Sequence[int] = ()) -> Any:
    if all(isinstance(shift, int) for shift in shifts):
        return private_onnxscript.core.aten_roll(self, shifts, dims)
    return rolled(self, shifts, dims, [-1])


def rolled(self: OnnxValue, shifts: Sequence[Number], dims: Sequence[int], line: Sequence[int]) -> OnnxValue:
    """Roll each of `dims` by its shift; without any, all elements, in a row of the shape `line`."""
    if not dims:
        return op.Reshape(_rolled_along(op.Reshape(self, line), shifts[0], 0), op.Shape(self))
    value, rank = self, self.rank
    for shift, axis in zip(shifts, dims, strict=True):
        value = _rolled_along(value, shift, axis % rank)
    return value


def _rolled_along(value: OnnxValue, shift: Number, axis: int) -> OnnxValue:
    """Put the end of an axis first: from `-shift` on, counted within the axis."""
    size = op.Shape(value, start=axis, end=axis + 1)
    size = op.Max(size, op.Constant(value_ints=[1]))  # Mod by 0 is undefined
    start = op.Mod(op.Neg(op.Reshape(shift, [1])), size)  # Mod has the sign of the divisor
    end = op.Slice(value, start, size, [axis])
    return op.Concat(end, op.Slice(value, [0], start, [axis]), axis=axis)


_CORE = "onnxscript/function_libs/torch_lib/ops/core.py"
PATCHES = (
    *missing_translations({"aten.index_reduce.default": _index_reduce, "aten.masked_select.default": _masked_select}),
    *translations(
        {"aten.bincount.default": _bincount},
        why="torchlib counts nothing up to a size of an input or by weights",
        upstream=f"{_CORE}: aten_bincount",
        until="torchlib's aten_bincount takes weights and a minlength that is a tensor",
    ),
    *translations(
        {"aten.roll.default": _roll},
        why="torchlib takes constant shifts alone; torch.fft.fftshift of an open axis has one that is a size",
        upstream=f"{_CORE}: aten_roll",
        until="torchlib's aten_roll takes shifts that are tensors",
    ),
    *translations(
        {"aten.scatter_reduce.two": _scatter},
        why="torchlib's takes the last number for a mean, and the least finite one where all are -inf",
        upstream=f"{_CORE}: aten_scatter_reduce",
        until="torchlib computes means, and starts from infinities",
    ),
)
