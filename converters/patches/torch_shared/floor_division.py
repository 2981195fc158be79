"""Floor division, remainders and right shifts as PyTorch computes them, for both of torch's exporters.

Both round the quotient of floats, which may have been rounded up to an integer by then: they make 30 of 3 // 0.1, and 0
of 3 % 0.1. Here it comes from C's fmod, which is exact. Of integers the TorchScript exporter rounds `x // 3` and
`x >> 1` towards zero, which is wrong below zero. The dynamo exporter divides floats for `torch.div` with a rounding
mode, which is wrong from 2^24 on.

Formulas: c10::div_floor_floating in c10/util/generic_math.h, and remainder_kernel in aten's BinaryOpsKernel.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from .. import private_onnxscript, private_torch
from ..ledger import symbolics, translations
from .dynamo_graph import Number, OnnxNode, OnnxValue, constant_of, ir, op
from .formulas import DOUBLE, FLOAT, INT64, GraphValue, OpWriter
from .traced_graph import Traced, TracedGraph, TracedValue, constant, helper, jit_type, onnx_type, scalar_of

if TYPE_CHECKING:
    from onnxscript.ir import DataType

_Formula: TypeAlias = Callable[[OpWriter[GraphValue], GraphValue, GraphValue], GraphValue]


def _floor_quotient(op: OpWriter[GraphValue], x: GraphValue, y: GraphValue) -> GraphValue:
    """Write the floor of the quotient of two tensors of float32, or of float64."""
    rest = op.Mod(x, y, fmod=1)
    exact = op.Div(op.Sub(x, rest), y)  # an integer, except for the rounding of Div
    exact = op.Sub(exact, op.CastLike(_signs_differ(op, rest, y), x))
    floor = op.Floor(exact)
    floor = op.Add(floor, op.CastLike(op.Greater(op.Sub(exact, floor), op.CastLike(0.5, x)), x))
    return op.Where(op.Equal(y, op.CastLike(0.0, y)), op.Div(x, y), floor)


def _float_remainder(op: OpWriter[GraphValue], x: GraphValue, y: GraphValue) -> GraphValue:
    """Write the remainder of x, with the sign of y."""
    rest = op.Mod(x, y, fmod=1)
    return op.Where(_signs_differ(op, rest, y), op.Add(rest, y), rest)


def _truncated_quotient(op: OpWriter[GraphValue], x: GraphValue, y: GraphValue) -> GraphValue:
    """Write the quotient rounded towards zero; infinite, or NaN, where the quotient is."""
    quotient = op.Div(x, y)
    return op.Where(op.Less(quotient, op.CastLike(0.0, x)), op.Ceil(quotient), op.Floor(quotient))


def _signs_differ(op: OpWriter[GraphValue], rest: GraphValue, y: GraphValue) -> GraphValue:
    """Write where there is a rest whose sign is not that of y."""
    zero = op.CastLike(0.0, y)
    differ = op.Xor(op.Less(rest, zero), op.Less(y, zero))
    return op.And(differ, op.Not(op.Equal(rest, zero)))


def _write_float_quotient(formula: _Formula[OnnxValue], self: Number, other: Number) -> OnnxValue | None:
    """Write a quotient for the dynamo exporter; None where both are integers."""
    dtype = _promoted(self, other)
    if dtype is None:
        return None
    wide = dtype if dtype == ir.DataType.DOUBLE else ir.DataType.FLOAT  # PyTorch's kernels compute in no fewer bits
    return op.Cast(formula(op, _tensor_of(self, wide), _tensor_of(other, wide)), to=dtype)


def _tensor_of(value: Number, dtype: DataType) -> OnnxValue:
    """Return a tensor or a Python number as a tensor of a dtype."""
    if isinstance(value, bool | int | float):
        number = constant_of(value, dtype)
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


def _write_traced_float_quotient(
    formula: _Formula[TracedValue], g: TracedGraph, self: TracedValue, other: TracedValue
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


def _divide(self: Number, other: Number, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return private_onnxscript.core.aten_div_mode(self, other, None)
    quotient = _write_float_quotient(_FORMULAS[rounding_mode], self, other)
    if quotient is not None:
        return quotient
    dividend, divisor = _integers(self, other)
    if rounding_mode == "floor":
        return private_onnxscript.core.aten_floor_divide(dividend, divisor)
    return op.Div(dividend, divisor)


_FORMULAS: dict[str, _Formula[Any]] = {"floor": _floor_quotient, "trunc": _truncated_quotient}


def _remainder(self: Number, other: Number) -> OnnxValue:
    rest = _write_float_quotient(_float_remainder, self, other)
    return op.Mod(*_integers(self, other)) if rest is None else rest


def _integers(*values: Number) -> list[OnnxValue]:
    """Return tensors of integers: Python's numbers in the dtype of the tensor beside them."""
    dtype = next(value.dtype for value in values if not isinstance(value, bool | int | float))
    return [_tensor_of(value, dtype) for value in values]


def _divide_sizes(self: Number, other: Number) -> OnnxValue:
    """Write `//` of sizes: Div rounds towards zero, which is right where neither can be negative; `-h // 8` can be."""
    quotient = _write_float_quotient(_floor_quotient, self, other)
    if quotient is not None:
        return quotient
    if _never_negative(self) and _never_negative(other):
        return op.Div(self, other)
    return op.Div(op.Sub(self, op.Mod(self, other)), other)  # Mod has the sign of the divisor, as in Python


def _never_negative(value: Number) -> bool:
    """Return whether a number is computed from sizes and positive constants in a way that keeps it positive."""
    if isinstance(value, bool | int | float):
        return value >= 0
    node = value.producer()
    if node is None:
        return False
    if node.op_type == "Constant":
        return value.const_value is not None and bool((value.const_value.numpy() >= 0).all())
    return node.op_type == "Shape" or (node.op_type in _KEEP and all(map(_never_negative, _signed_inputs(node))))


def _signed_inputs(node: OnnxNode) -> Sequence[OnnxValue]:
    """Return the inputs of a node that decide its sign."""
    inputs = node.inputs[-1:] if node.op_type == "Mod" else node.inputs
    return inputs[:1] if node.op_type in _MOVE else inputs


_MOVE = ("Squeeze", "Unsqueeze", "Reshape", "Gather", "Cast", "Identity")
_KEEP = (*_MOVE, "Add", "Mul", "Div", "Mod", "Max", "Min")


def _divide_traced(g: TracedGraph, self: TracedValue, other: TracedValue, mode: TracedValue | None = None) -> Any:
    if mode is None or helper._is_none(mode):
        return private_torch.symbolic_opset10.div(g, self, other)
    quotient = _write_traced_float_quotient(_FORMULAS[helper._parse_arg(mode, "s")], g, self, other)
    return private_torch.symbolic_opset10.div(g, self, other, mode) if quotient is None else quotient


def _remainder_traced(g: TracedGraph, self: TracedValue, other: TracedValue) -> Any:
    rest = _write_traced_float_quotient(_float_remainder, g, self, other)
    return private_torch.symbolic_opset11.remainder(g, self, other) if rest is None else rest


def _floor_divide(g: TracedGraph, self: TracedValue, other: TracedValue) -> Any:
    quotient = _write_traced_float_quotient(_floor_quotient, g, self, other)
    if quotient is not None:
        return quotient
    like = other if _is_size(self) else self  # of a number and a tensor the tensor's dtype counts
    if _is_size(like) and not (_never_negative_traced(self) and _never_negative_traced(other)):
        return g.op("Div", g.op("Sub", self, g.op("Mod", self, other)), other)
    if _is_size(like) or not _is_signed(like):
        return private_torch.symbolic_opset9.floor_divide(g, self, other)
    return _floor(g, *(g.op("Cast", value, to_i=onnx_type(like)) for value in (self, other)))


def _right_shift(g: TracedGraph, self: TracedValue, other: TracedValue) -> Any:
    if _is_size(self) or not _is_signed(self):
        return getattr(private_torch.symbolic_opset11, "__rshift_")(g, self, other)
    power = g.op("Pow", constant(g, 2.0), g.op("Cast", other, to_i=FLOAT))  # exact for every power of two
    return _floor(g, self, g.op("Cast", power, to_i=onnx_type(self)))


def _floor(g: TracedGraph, self: TracedValue, other: TracedValue) -> TracedValue:
    """Write the quotient that Div rounds towards zero, less 1 where there is a rest and the signs differ."""
    quotient = g.op("Div", self, other)
    rest = g.op("Sub", self, g.op("Mul", quotient, other))
    below, negative, left = (g.op("Cast", value, to_i=INT64) for value in (self, other, rest))
    zero = constant(g, 0)
    differ = g.op("Xor", g.op("Less", below, zero), g.op("Less", negative, zero))
    is_less = g.op("And", differ, g.op("Not", g.op("Equal", left, zero)))
    return g.op("Sub", quotient, g.op("Cast", is_less, to_i=onnx_type(self)))


def _is_size(value: TracedValue) -> bool:
    """Return whether a value has rank 0, as numbers have that a trace computes from sizes."""
    return bool(helper._get_tensor_rank(value) == 0)


def _never_negative_traced(value: TracedValue) -> bool:
    """Return what `_never_negative` does, for the TorchScript exporter's graph."""
    node = value.node()
    if node.kind() == "onnx::Constant":
        return bool((node.t("value") >= 0).all())
    name = node.kind().removeprefix("onnx::")
    inputs = list(node.inputs())[: 1 if name in _MOVE else None]
    return name == "Shape" or (name in _KEEP and all(map(_never_negative_traced, inputs)))


def _is_signed(value: TracedValue) -> bool:
    return scalar_of(value) in ("Char", "Short", "Int", "Long")


_floor_divide_tensors = partial(_divide, rounding_mode="floor")
_TORCHLIB = "onnxscript/function_libs/torch_lib/ops/core.py"
PATCHES = (
    *translations(
        {"aten.div.Tensor_mode": _divide, "aten.div.Scalar_mode": _divide},
        why="Divides floats, so that integers are wrong from 2^24 on, and rounds the quotient: 3 // 0.1 is 30.",
        upstream=f"{_TORCHLIB} (aten_div_mode)",
        until="it divides integers, and takes the remainder of floats off first",
    ),
    *translations(
        {"aten.floor_divide.default": _floor_divide_tensors, "aten.floor_divide.Scalar": _floor_divide_tensors},
        why="Rounds the quotient of floats, which may have been rounded up: 3 // 0.1 is 30.",
        upstream=f"{_TORCHLIB} (aten_floor_divide)",
        until="it takes the remainder of floats off first",
    ),
    *translations(
        dict.fromkeys(("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor"), _remainder),
        why="Subtracts a rounded quotient: 3 % 0.1 is 0.",
        upstream=f"{_TORCHLIB} (aten_remainder)",
        until="it is exact, as C's fmod is",
    ),
    *translations(
        {"operator.floordiv": _divide_sizes},
        why="Rounds towards zero, which is wrong for a negative size, as in `(h - 9) // 2`.",
        upstream=f"{_TORCHLIB} (operator.floordiv)",
        until="it rounds down",
    ),
    *symbolics(
        {"aten::div": _divide_traced, "aten::remainder": _remainder_traced},
        why="Rounds the quotient of floats, which may have been rounded up.",
    ),
    *symbolics(
        {"aten::floor_divide": _floor_divide, "aten::__rshift_": _right_shift},
        why="Rounds integers towards zero, which is wrong for negative ones.",
    ),
)
