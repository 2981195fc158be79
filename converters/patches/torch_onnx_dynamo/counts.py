"""Numbers counted and gathered by place, for torch's dynamo exporter."""

from __future__ import annotations

from ..ledger import missing_translations, translations
from ..torch_shared.graph_types import Number, OnnxValue
from ..torch_shared.onnxscript_opset import ir, op
from .scalar_functions import scatter


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
    return scatter(self, dim, places, source, reduce, include_self)


def _masked_select(self: OnnxValue, mask: OnnxValue) -> OnnxValue:
    """Select the numbers where a mask holds, in one row."""
    value = op.Expand(self, op.Shape(mask))
    full_mask = op.Expand(mask, op.Shape(value))
    return op.Compress(op.Reshape(value, [-1]), op.Reshape(full_mask, [-1]))


PATCHES = (
    *translations(
        {"aten.bincount.default": _bincount},
        why="torchlib counts nothing up to a size of an input or by weights",
        upstream="onnxscript/function_libs/torch_lib/ops/core.py: aten_bincount",
        until="torchlib's aten_bincount takes weights and a minlength that is a tensor",
    ),
    *missing_translations(
        {"aten.index_reduce.default": _index_reduce, "aten.masked_select.default": _masked_select},
    ),
)
