"""Floats divided and rounded down, and what is left, as PyTorch computes them: from C's fmod, which is exact. Both of
torch's exporters round the quotient instead, and that may have been rounded up to a whole number by then: of 3 // 0.1
they make 30, and of 3 % 0.1 nothing.

Formulas: c10::div_floor_floating in c10/util/generic_math.h, and remainder_kernel in aten's BinaryOpsKernel.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .onnxscript_opset import ir, op
from .traced_symbolics import DOUBLE, FLOAT, Traced, helper, jit_type, onnx_type, scalar_of

Formula: TypeAlias = Callable[[Any, Any, Any], Any]


def floor_quotient(op: Any, x: Any, y: Any) -> Any:
    """The quotient rounded down, of two tensors of float32, or float64, by what writes either exporter's operators."""
    left = op.Mod(x, y, fmod=1)
    whole = op.Div(op.Sub(x, left), y)  # but for its own rounding
    whole = op.Sub(whole, op.CastLike(_lies_across(op, left, y), x))
    floor = op.Floor(whole)
    floor = op.Add(floor, op.CastLike(op.Greater(op.Sub(whole, floor), op.CastLike(0.5, x)), x))
    return op.Where(op.Equal(y, op.CastLike(0.0, y)), op.Div(x, y), floor)


def remainder(op: Any, x: Any, y: Any) -> Any:
    """What is left of x, with the sign of y."""
    left = op.Mod(x, y, fmod=1)
    return op.Where(_lies_across(op, left, y), op.Add(left, y), left)


def truncated_quotient(op: Any, x: Any, y: Any) -> Any:
    """The quotient cut towards zero; infinite, and no number, where the quotient is."""
    quotient = op.Div(x, y)
    return op.Where(op.Less(quotient, op.CastLike(0.0, x)), op.Ceil(quotient), op.Floor(quotient))


def _lies_across(op: Any, left: Any, y: Any) -> Any:
    """Where something is left that has not the sign of y."""
    zero = op.CastLike(0.0, y)
    differ = op.Xor(op.Less(left, zero), op.Less(y, zero))
    return op.And(differ, op.Not(op.Equal(left, zero)))


def of_floats(formula: Formula, self: Any, other: Any) -> Any:
    """A quotient in the dynamo exporter, of tensors and Python's numbers; None where all of them are whole."""
    kind = _kind(self, other)
    if kind is None:
        return None
    wide = kind if kind == ir.DataType.DOUBLE else ir.DataType.FLOAT  # PyTorch's kernels compute in no fewer bits
    return op.Cast(formula(op, tensor_of(self, wide), tensor_of(other, wide)), to=kind)


def tensor_of(value: Any, kind: Any) -> Any:
    """A tensor or a Python number as a tensor of this type."""
    if isinstance(value, bool | int | float):
        made = op.Constant(value=ir.tensor(value, dtype=kind))
        made.dtype = kind  # which it does not tell by itself
        return made
    return value if value.dtype == kind else op.Cast(value, to=kind)


def _kind(*values: Any) -> Any:
    """The floats that PyTorch makes of them: a tensor's with axes before one's without, and that before a number's."""
    typed = [each for each in values if getattr(each, "dtype", None) is not None]  # a size need not have one
    floats = [each for each in typed if each.dtype.is_floating_point()]
    if floats:
        return max(floats, key=lambda each: (each.rank != 0, each.dtype.bitwidth)).dtype
    return ir.DataType.FLOAT if any(isinstance(each, float) for each in values) else None


def of_traced_floats(formula: Formula, g: Any, self: Any, other: Any) -> Any:
    """The same in the older exporter."""
    kind = _traced_kind(g.original_node.output(), self, other)
    if kind is None:
        return None
    op, wide = Traced(g), DOUBLE if kind == DOUBLE else FLOAT
    return op.Cast(formula(op, op.Cast(self, to=wide), op.Cast(other, to=wide)), to=kind)


def _traced_kind(made: Any, *values: Any) -> int | None:
    """What a trace says of the result. Compiled code says nothing of it: there a number, which is a tensor without axes
    as well, comes after what is computed."""
    if jit_type(made) is not None:
        return int(onnx_type(made)) if scalar_of(made) in _FLOATS else None
    floats = [each for each in values if scalar_of(each) in _FLOATS]
    return int(onnx_type(max(floats, key=_weight))) if floats else None


def _weight(value: Any) -> tuple[bool, bool]:
    return helper._get_tensor_rank(value) != 0, value.node().kind() != "onnx::Constant"


_FLOATS = ("Half", "BFloat16", "Float", "Double")
