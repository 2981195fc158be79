"""Numbers divided and rounded down, their remainders, and bits shifted right as PyTorch does it, by both of torch's
exporters. Those of floats are in quotients.py.

Of whole numbers the older one's own forms of `x // 3` and `x >> 1` round to zero, and so are wrong for numbers below
zero. What the dynamo one makes of `torch.div` with a rounding mode divides floats, and so is wrong from 2^24 on.
"""

from __future__ import annotations

import operator
from typing import Any

from .. import private_onnxscript, private_torch
from .float_quotients import (
    Formula,
    floor_quotient,
    of_floats,
    of_traced_floats,
    remainder,
    tensor_of,
    truncated_quotient,
)
from .onnxscript_opset import Translations, op
from .traced_symbolics import FLOAT, INT64, Symbolics, constant, helper, onnx_type, register, scalar_of


def mend_floors() -> None:
    """Register the right forms for every later export of this process. Sizes of axes keep the exporter's own where
    nothing is taken from them: they are never below zero, and what is made of them must stay simple."""
    symbolics: Symbolics = {
        "aten::div": _divide_traced,
        "aten::floor_divide": _floor_divide,
        "aten::remainder": _remainder_traced,
        "aten::__rshift_": _right_shift,
    }
    register(symbolics)


def division() -> Translations:
    """The right forms for the dynamo exporter: its argument `custom_translation_table`."""
    import torch

    aten = torch.ops.aten
    floors, left = (aten.floor_divide.default, aten.floor_divide.Scalar), aten.remainder
    return {
        **dict.fromkeys((aten.div.Tensor_mode, aten.div.Scalar_mode), _divide),
        **dict.fromkeys(floors, lambda self, other: _divide(self, other, "floor")),
        **dict.fromkeys((left.Tensor, left.Scalar, left.Scalar_Tensor), _remainder),
        operator.floordiv: _divide_sizes,
    }


def _divide(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return private_onnxscript.core.aten_div_mode(self, other, None)
    made = of_floats(_FORMULAS[rounding_mode], self, other)
    if made is not None:
        return made
    self, other = _integers(self, other)
    return private_onnxscript.core.aten_floor_divide(self, other) if rounding_mode == "floor" else op.Div(self, other)


_FORMULAS: dict[str, Formula] = {"floor": floor_quotient, "trunc": truncated_quotient}


def _remainder(self: Any, other: Any) -> Any:
    made = of_floats(remainder, self, other)
    return op.Mod(*_integers(self, other)) if made is None else made


def _integers(*values: Any) -> list[Any]:
    """Python's numbers among them in the type of the tensor beside them."""
    kind = next(each.dtype for each in values if not isinstance(each, int))
    return [tensor_of(each, kind) for each in values]


def _divide_sizes(self: Any, other: Any) -> Any:
    """Of sizes what Div rounds to zero is right, and simple; `-h // 8` and `(h - 9) // 2` may be below zero."""
    made = of_floats(floor_quotient, self, other)
    if made is not None:
        return made
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


def _divide_traced(g: Any, self: Any, other: Any, mode: Any = None) -> Any:
    if mode is None or helper._is_none(mode):
        return private_torch.symbolic_opset10.div(g, self, other)
    made = of_traced_floats(_FORMULAS[helper._parse_arg(mode, "s")], g, self, other)
    return private_torch.symbolic_opset10.div(g, self, other, mode) if made is None else made


def _remainder_traced(g: Any, self: Any, other: Any) -> Any:
    made = of_traced_floats(remainder, g, self, other)
    return private_torch.symbolic_opset11.remainder(g, self, other) if made is None else made


def _floor_divide(g: Any, self: Any, other: Any) -> Any:
    made = of_traced_floats(floor_quotient, g, self, other)
    if made is not None:
        return made
    kind = other if _is_size(self) else self  # of a number and a tensor the tensor's
    if _is_size(kind) and not (_never_negative_traced(self) and _never_negative_traced(other)):
        return g.op("Div", g.op("Sub", self, g.op("Mod", self, other)), other)
    if _is_size(kind) or not _is_signed(kind):
        return private_torch.symbolic_opset9.floor_divide(g, self, other)
    return _floor(g, *(g.op("Cast", each, to_i=onnx_type(kind)) for each in (self, other)))


def _right_shift(g: Any, self: Any, other: Any) -> Any:
    if _is_size(self) or not _is_signed(self):
        return getattr(private_torch.symbolic_opset11, "__rshift_")(g, self, other)
    power = g.op("Pow", constant(g, 2.0), g.op("Cast", other, to_i=FLOAT))  # which has every power of two
    return _floor(g, self, g.op("Cast", power, to_i=onnx_type(self)))


def _floor(g: Any, self: Any, other: Any) -> Any:
    """What Div rounds to zero, one less where something is left and the signs differ."""
    quotient = g.op("Div", self, other)
    left = g.op("Sub", self, g.op("Mul", quotient, other))
    below, negative, rest = (g.op("Cast", each, to_i=INT64) for each in (self, other, left))
    zero = constant(g, 0)
    differ = g.op("Xor", g.op("Less", below, zero), g.op("Less", negative, zero))
    is_less = g.op("And", differ, g.op("Not", g.op("Equal", rest, zero)))
    return g.op("Sub", quotient, g.op("Cast", is_less, to_i=onnx_type(self)))


def _is_size(value: Any) -> bool:
    """Numbers that a trace makes of sizes are tensors without axes."""
    return bool(helper._get_tensor_rank(value) == 0)


def _never_negative_traced(value: Any) -> bool:
    """As `_never_negative`, in the older exporter's graph."""
    node = value.node()
    if node.kind() == "onnx::Constant":
        return bool((node.t("value") >= 0).all())
    name = node.kind().removeprefix("onnx::")
    given = list(node.inputs())[: 1 if name in _MOVE else None]
    return name == "Shape" or (name in _KEEP and all(map(_never_negative_traced, given)))


def _is_signed(value: Any) -> bool:
    return scalar_of(value) in ("Char", "Short", "Int", "Long")
