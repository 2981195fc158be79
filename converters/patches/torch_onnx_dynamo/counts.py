"""Numbers counted and gathered by place, for torch's dynamo exporter: that one counts nothing up to a size of an input
or by weights, and has neither index_reduce nor masked_select."""

from __future__ import annotations

from typing import Any

from ..torch_shared.onnxscript_opset import Translations, ir, op
from .scalar_functions import scatter


def counts() -> Translations:
    """A part of the exporter's `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    return {
        aten.bincount.default: _bincount,
        aten.index_reduce.default: _index_reduce,
        aten.masked_select.default: _masked_select,
    }


def _bincount(self: Any, weights: Any = None, minlength: Any = 0) -> Any:
    """How often each number occurs, from 0 to the largest, and up to `minlength` at least; or the sum of its weights,
    which is of float64 unless they are of float32."""
    number = op.Cast(self, to=ir.DataType.INT64)
    # where there is none it is -1
    largest = op.ReduceMax(op.Concat(op.Constant(value_ints=[-1]), number, axis=0), keepdims=True)
    least = op.Constant(value_ints=[minlength]) if isinstance(minlength, int) else op.Reshape(minlength, [1])
    if weights is None:
        added = op.Expand(op.Constant(value_int=1), op.Shape(number))
    else:
        added = weights if weights.dtype == ir.DataType.FLOAT else op.Cast(weights, to=ir.DataType.DOUBLE)
    start = op.Expand(op.CastLike(0, added), op.Max(op.Add(largest, [1]), least))
    return op.ScatterElements(start, number, added, axis=0, reduction="add")


def _index_reduce(  # noqa: PLR0917  (the operator's own arguments)
    self: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool = True
) -> Any:
    """Whole slices of `source`, each to its place along `dim`."""
    line = [1] * source.rank
    line[dim] = -1
    places = op.Expand(op.Reshape(op.Cast(index, to=ir.DataType.INT64), line), op.Shape(source))
    return scatter(self, dim, places, source, reduce, include_self)


def _masked_select(self: Any, mask: Any) -> Any:
    """The numbers where a mask holds, in one row."""
    spread = op.Expand(self, op.Shape(mask))
    held = op.Expand(mask, op.Shape(spread))
    return op.Compress(op.Reshape(spread, [-1]), op.Reshape(held, [-1]))
