"""Whole numbers divided and shifted right as PyTorch does it, by both of torch's exporters.

The older one's own forms of `x // 3` and `x >> 1` round to zero, and so are wrong for numbers below zero. What the
dynamo one makes of `torch.div` with a rounding mode divides floats, and so is wrong from 2^24 on.
"""

from __future__ import annotations

import operator
from typing import Any

from .script import Translations, op


def mend_floors() -> None:
    """Register the right forms for every later export of this process. Sizes of axes keep the exporter's own: they are
    never below zero, and what is made of them must stay simple."""
    import torch

    exporter: Any = torch.onnx  # not all of it is in its types
    for opset in OPSETS:
        exporter.register_custom_op_symbolic("aten::floor_divide", _floor_divide, opset)
        exporter.register_custom_op_symbolic("aten::__rshift_", _right_shift, opset)


def division() -> Translations:
    """The right forms for the dynamo exporter: its argument `custom_translation_table`."""
    import torch
    from onnxscript.function_libs.torch_lib.ops import core

    def divide(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
        if rounding_mode is None or not self.dtype.is_integer():
            return core.aten_div_mode(self, other, rounding_mode)
        return core.aten_floor_divide(self, other) if rounding_mode == "floor" else op.Div(self, other)

    return {
        torch.ops.aten.div.Tensor_mode: divide,
        torch.ops.aten.div.Scalar_mode: divide,
        operator.floordiv: _divide_sizes,
    }


def _divide_sizes(self: Any, other: Any) -> Any:
    """Of sizes what Div rounds to zero is right, and simple; `-h // 8` and `(h - 9) // 2` may be below zero."""
    if any(isinstance(each, float) or getattr(each, "dtype", None) in _FLOATS for each in (self, other)):
        return op.Floor(op.Div(self, other))
    if _never_negative(self) and _never_negative(other):
        return op.Div(self, other)
    return op.Div(op.Sub(self, op.Mod(self, other)), other)  # Mod has the sign of what divides, as in Python


def _never_negative(value: Any) -> bool:
    """Whether a number is made of sizes and positive constants in a way that keeps them so."""
    if isinstance(value, int):
        return value >= 0
    maker = value.producer()
    if maker is None:
        return False
    if maker.op_type == "Constant":
        return value.const_value is not None and bool((value.const_value.numpy() >= 0).all())
    return maker.op_type == "Shape" or (maker.op_type in _KEEP and all(map(_never_negative, _numbers_of(maker))))


def _numbers_of(maker: Any) -> Any:
    """Those inputs of a node that decide what sign it has."""
    kept = maker.inputs[-1:] if maker.op_type == "Mod" else maker.inputs
    return kept[:1] if maker.op_type in _MOVE else kept


_MOVE = ("Squeeze", "Unsqueeze", "Reshape", "Gather", "Cast", "Identity")
_KEEP = (*_MOVE, "Add", "Mul", "Div", "Mod", "Max", "Min")
_FLOATS = (1, 11)  # onnx.TensorProto's


OPSETS = range(11, 21)
_FLOAT, INT64 = 1, 7  # onnx.TensorProto's


def _floor_divide(g: Any, self: Any, other: Any) -> Any:
    from torch.onnx._internal.torchscript_exporter import symbolic_opset9

    if _is_size(self) or not _is_signed(self):
        return symbolic_opset9.floor_divide(g, self, other)
    return _floor(g, self, g.op("Cast", other, to_i=_onnx_type(self)))


def _right_shift(g: Any, self: Any, other: Any) -> Any:
    from torch.onnx._internal.torchscript_exporter import symbolic_opset11

    if _is_size(self) or not _is_signed(self):
        return symbolic_opset11.__dict__["__rshift_"](g, self, other)
    two = g.op("Constant", value_t=_number(2.0))
    power = g.op("Pow", two, g.op("Cast", other, to_i=_FLOAT))  # which has every power of two
    return _floor(g, self, g.op("Cast", power, to_i=_onnx_type(self)))


def _floor(g: Any, self: Any, other: Any) -> Any:
    """What Div rounds to zero, one less where something is left and the signs differ."""
    quotient = g.op("Div", self, other)
    left = g.op("Sub", self, g.op("Mul", quotient, other))
    below, negative, rest = (g.op("Cast", each, to_i=INT64) for each in (self, other, left))
    zero = g.op("Constant", value_t=_number(0))
    differ = g.op("Xor", g.op("Less", below, zero), g.op("Less", negative, zero))
    is_less = g.op("And", differ, g.op("Not", g.op("Equal", rest, zero)))
    return g.op("Sub", quotient, g.op("Cast", is_less, to_i=_onnx_type(self)))


def _number(value: float) -> Any:
    import torch

    return torch.tensor(value)


def _is_size(value: Any) -> bool:
    """Numbers that a trace makes of sizes are tensors without axes."""
    from torch.onnx import symbolic_helper

    return bool(symbolic_helper._get_tensor_rank(value) == 0)


def _is_signed(value: Any) -> bool:
    return scalar_of(value) in ("Char", "Short", "Int", "Long")


def scalar_of(value: Any) -> str:
    """The exporter's name of a dtype, or nothing where it knows none."""
    kind = _jit_type(value)
    return str(kind.scalar_name()) if kind else ""


def _onnx_type(value: Any) -> Any:
    return _jit_type(value).onnx_type()


def _jit_type(value: Any) -> Any:
    import torch

    kinds: Any = torch.onnx
    kind = kinds.JitScalarType.from_value(value, kinds.JitScalarType.UNDEFINED)
    return None if kind is kinds.JitScalarType.UNDEFINED else kind
