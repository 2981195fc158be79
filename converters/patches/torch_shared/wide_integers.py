"""Max, min, clamp, relu and sign of int64 tensors, for both of torch's exporters.

ONNX Runtime's own Max, Min, Clip, Relu and Sign compare the lower halves of numbers from 2^31 to 2^32 - 1 as signed
(1.31: `clamp(0, 2)` of 2^31 was 0). By Less they are right. Sizes, which have rank 0, keep the exporters' simple form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import private_onnxscript, private_torch
from ..ledger import ONNX_RUNTIME, symbolics, translations
from .dynamo_graph import OnnxValue, constant_of, ir, op
from .formulas import INT64, GraphValue, OpWriter
from .traced_graph import Traced, TracedGraph, TracedValue, constant, helper, scalar_of


def larger(op: OpWriter[GraphValue], x: GraphValue, y: GraphValue) -> GraphValue:
    """Write the maximum of two tensors of integers."""
    return op.Where(op.Less(x, y), y, x)


def smaller(op: OpWriter[GraphValue], x: GraphValue, y: GraphValue) -> GraphValue:
    """Write the minimum of two tensors of integers."""
    return op.Where(op.Less(y, x), y, x)


def clamped(
    op: OpWriter[GraphValue], value: GraphValue, least: GraphValue | None, most: GraphValue | None
) -> GraphValue:
    """Write a clamp; either bound may be None. Where the bounds cross, the upper one wins."""
    value = value if least is None else larger(op, value, least)
    return value if most is None else smaller(op, value, most)


def _sign(op: OpWriter[GraphValue], value: GraphValue, zero: GraphValue) -> GraphValue:
    above, below = (op.Cast(is_true, to=INT64) for is_true in (op.Less(zero, value), op.Less(value, zero)))
    return op.Sub(above, below)


def is_wide(*values: OnnxValue) -> bool:
    """Return whether values of the dynamo exporter are int64, and one of them has axes."""
    return all(value.dtype == ir.DataType.INT64 for value in values) and any(value.rank != 0 for value in values)


def _number(value: int) -> OnnxValue:
    return constant_of(value, ir.DataType.INT64)


def _clamp(self: OnnxValue, min: Any = None, max: Any = None) -> Any:  # noqa: A002  (PyTorch's names)
    if not is_wide(self) or isinstance(min, float) or isinstance(max, float):
        return private_onnxscript.core.aten_clamp(self, min, max)
    return clamped(op, self, *(_number(bound) if isinstance(bound, int) else bound for bound in (min, max)))


def _chosen(choose: Callable[..., Any], own: str) -> Callable[..., Any]:
    def translation(self: OnnxValue, other: OnnxValue) -> Any:
        return choose(op, self, other) if is_wide(self, other) else getattr(private_onnxscript.core, own)(self, other)

    return translation


def _relu(self: OnnxValue) -> Any:
    return larger(op, self, _number(0)) if is_wide(self) else private_onnxscript.nn.aten_relu(self)


def _sign_of(self: OnnxValue) -> Any:
    return _sign(op, self, _number(0)) if is_wide(self) else private_onnxscript.core.aten_sign(self)


def _is_wide_traced(*values: TracedValue) -> bool:
    """Return what `is_wide` does; a value of unknown rank has axes."""
    ranks = map(helper._get_tensor_rank, values)
    return all(scalar_of(value) == "Long" for value in values) and any(rank != 0 for rank in ranks)


def _chosen_traced(name: str, choose: Callable[..., Any]) -> Callable[..., Any]:
    """Return a symbolic for two tensors; for one tensor, along an axis or not, it is the exporter's own."""

    def symbolic(g: TracedGraph, self: TracedValue, other: Any = None, keepdim: Any = None) -> Any:
        if keepdim is None and other is not None and _is_wide_traced(self, other):
            return choose(Traced(g), self, other)
        own = getattr(private_torch.symbolic_opset9, name)
        return own(g, self, other) if keepdim is None else own(g, self, other, keepdim)

    return symbolic


def _clamp_traced(g: TracedGraph, self: TracedValue, least: Any, most: Any) -> Any:
    bounds = [None if helper._is_none(bound) else bound for bound in (least, most)]
    if not _is_wide_traced(self) or any(bound is not None and scalar_of(bound) != "Long" for bound in bounds):
        return private_torch.symbolic_opset11.clamp(g, self, least, most)
    low, high = (bound if bound is None else g.op("Cast", bound, to_i=INT64) for bound in bounds)
    return clamped(Traced(g), self, low, high)


def _against_zero(name: str, formula: Callable[..., Any]) -> Callable[..., Any]:
    def symbolic(g: TracedGraph, self: TracedValue) -> Any:
        if _is_wide_traced(self):
            return formula(Traced(g), self, constant(g, 0))
        return getattr(private_torch.symbolic_opset9, name)(g, self)

    return symbolic


_CHOICES = {"max": larger, "maximum": larger, "min": smaller, "minimum": smaller}
_WHY = "Writes an operator that ONNX Runtime computes wrongly for int64 from 2^31 to 2^32 - 1."
_UNTIL = "ONNX Runtime compares int64 as 64 bits in Max, Min, Clip, Relu and Sign"
_KERNELS = "onnxruntime/core/providers/cpu/math/element_wise_ops.cc"
PATCHES = (
    *translations(
        {
            "aten.clamp.default": _clamp,
            "aten.clamp_min.default": lambda self, least: _clamp(self, least, None),
            "aten.clamp_max.default": lambda self, most: _clamp(self, None, most),
            "aten.clamp_min.Tensor": _chosen(larger, "aten_clamp_min_tensor"),
            "aten.clamp_max.Tensor": _chosen(smaller, "aten_clamp_max_tensor"),
            "aten.maximum.default": _chosen(larger, "aten_maximum"),
            "aten.minimum.default": _chosen(smaller, "aten_minimum"),
            "aten.relu.default": _relu,
            "aten.sign.default": _sign_of,
        },
        why=_WHY,
        upstream=_KERNELS,
        until=_UNTIL,
        seen=ONNX_RUNTIME,
    ),
    *symbolics(
        {
            **{f"aten::{name}": _chosen_traced(name, choose) for name, choose in _CHOICES.items()},
            "aten::clamp": _clamp_traced,
            "aten::clamp_min": lambda g, self, least: _clamp_traced(g, self, least, None),
            "aten::clamp_max": lambda g, self, most: _clamp_traced(g, self, None, most),
            "aten::relu": _against_zero("relu", larger),
            "aten::sign": _against_zero("sign", _sign),
        },
        why=_WHY,
        upstream=_KERNELS,
        until=_UNTIL,
        seen=ONNX_RUNTIME,
    ),
)
