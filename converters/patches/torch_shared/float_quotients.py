"""Floor quotients and remainders of floats as PyTorch computes them: from C's fmod, which is exact.

Both of torch's exporters round the quotient instead, which may have been rounded up to an integer by then: they make
30 of 3 // 0.1, and 0 of 3 % 0.1.

Formulas: c10::div_floor_floating in c10/util/generic_math.h, and remainder_kernel in aten's BinaryOpsKernel.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from .graph_types import GraphValue, Number, OnnxValue, OpWriter, TracedGraph, TracedValue
from .onnxscript_opset import ir, op
from .traced_symbolics import DOUBLE, FLOAT, Traced, helper, jit_type, onnx_type, scalar_of

if TYPE_CHECKING:
    from onnxscript.ir import DataType

Formula: TypeAlias = Callable[[OpWriter[GraphValue], GraphValue, GraphValue], GraphValue]


def floor_quotient(op: OpWriter[GraphValue], x: GraphValue, y: GraphValue) -> GraphValue:
    """Write the floor of the quotient of two tensors of float32, or of float64."""
    rest = op.Mod(x, y, fmod=1)
    exact = op.Div(op.Sub(x, rest), y)  # an integer, except for the rounding of Div
    exact = op.Sub(exact, op.CastLike(_signs_differ(op, rest, y), x))
    floor = op.Floor(exact)
    floor = op.Add(floor, op.CastLike(op.Greater(op.Sub(exact, floor), op.CastLike(0.5, x)), x))
    return op.Where(op.Equal(y, op.CastLike(0.0, y)), op.Div(x, y), floor)


def remainder(op: OpWriter[GraphValue], x: GraphValue, y: GraphValue) -> GraphValue:
    """Write the remainder of x, with the sign of y."""
    rest = op.Mod(x, y, fmod=1)
    return op.Where(_signs_differ(op, rest, y), op.Add(rest, y), rest)


def truncated_quotient(op: OpWriter[GraphValue], x: GraphValue, y: GraphValue) -> GraphValue:
    """Write the quotient rounded towards zero; infinite, or NaN, where the quotient is."""
    quotient = op.Div(x, y)
    return op.Where(op.Less(quotient, op.CastLike(0.0, x)), op.Ceil(quotient), op.Floor(quotient))


def _signs_differ(op: OpWriter[GraphValue], rest: GraphValue, y: GraphValue) -> GraphValue:
    """Write where there is a rest whose sign is not that of y."""
    zero = op.CastLike(0.0, y)
    differ = op.Xor(op.Less(rest, zero), op.Less(y, zero))
    return op.And(differ, op.Not(op.Equal(rest, zero)))


def write_float_quotient(formula: Formula[OnnxValue], self: Number, other: Number) -> OnnxValue | None:
    """Write a quotient for the dynamo exporter; None where both are integers."""
    dtype = _promoted(self, other)
    if dtype is None:
        return None
    wide = dtype if dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT  # PyTorch's kernels compute in no fewer bits
    return op.Cast(formula(op, tensor_of(self, wide), tensor_of(other, wide)), to=dtype)


def tensor_of(value: Number, dtype: DataType) -> OnnxValue:
    """Return a tensor or a Python number as a tensor of a dtype."""
    if isinstance(value, bool | int | float):
        number = op.Constant(value=ir.tensor(value, dtype=dtype))
        number.dtype = dtype  # the exporter does not infer it
        return number
    return value if value.dtype == dtype else op.Cast(value, to=dtype)


def _promoted(*values: Number) -> DataType | None:
    """Return the float dtype of PyTorch's result: of tensors with axes first, then of rank 0, then of Python's."""
    floats = [
        value
        for value in values
        if not isinstance(value, bool | int | float)
        and getattr(value, "dtype", None) is not None  # a size need not have one
        and value.dtype.is_floating_point()
    ]
    if floats:
        return max(floats, key=lambda value: (value.rank != 0, value.dtype.bitwidth)).dtype
    is_float: DataType = ir.DataType.FLOAT
    return is_float if any(isinstance(value, float) for value in values) else None


def write_traced_float_quotient(
    formula: Formula[TracedValue], g: TracedGraph, self: TracedValue, other: TracedValue
) -> TracedValue | None:
    """Write a quotient for the TorchScript exporter; None where both are integers."""
    dtype = _traced_dtype(g.original_node.output(), self, other)
    if dtype is None:
        return None
    op, wide = Traced(g), DOUBLE if dtype == DOUBLE else FLOAT
    return op.Cast(formula(op, op.Cast(self, to=wide), op.Cast(other, to=wide)), to=dtype)


def _traced_dtype(result: TracedValue, *values: TracedValue) -> int | None:
    """Return the float dtype that a trace tells of the result.

    Compiled code tells none: there a number, which is a tensor of rank 0 as well, counts less than computed tensors.
    """
    if jit_type(result) is not None:
        return onnx_type(result) if scalar_of(result) in _FLOATS else None
    floats = [value for value in values if scalar_of(value) in _FLOATS]
    return onnx_type(max(floats, key=_weight)) if floats else None


def _weight(value: TracedValue) -> tuple[bool, bool]:
    return helper._get_tensor_rank(value) != 0, value.node().kind() != "onnx::Constant"


_FLOATS = ("Half", "BFloat16", "Float", "Double")
