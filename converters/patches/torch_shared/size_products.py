"""Sizes multiplied and divided by Python's floats, for the dynamo exporter: in float64, as Python computes.

The exporter's own float32 makes 63 of 90 * 0.7, which is 62.99999999999999, so that truncation gives 63. A product
that float32 can hold, as that by a half, stays in it: TFLite has no arithmetic of float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ledger import translation_table, translations
from .graph_types import Number, OnnxValue
from .onnxscript_opset import Translations, ir, op
from .traced_symbolics import DOUBLE, FLOAT, INT64

_EXACT = "in float64"  # what a value of float32 was rounded from, kept beside it
_SHORT_BITS = 12  # of a factor: sizes up to 4,096 times it are what float32 has


def products() -> Translations:
    """Return this part of the dynamo exporter's `custom_translation_table`."""
    return translation_table(PATCHES)


def multiplied(size: OnnxValue, factor: float) -> OnnxValue:
    """Write a size times a factor, truncated."""
    dtype = FLOAT if is_short(factor) else DOUBLE
    product = op.Mul(op.Cast(size, to=dtype), op.Constant(value=ir.tensor(float(factor), ir.DataType(dtype))))
    return op.Cast(product, to=INT64)


def is_short(factor: float) -> bool:
    """Return whether float32 holds the product of a size and this factor."""
    return float(math.frexp(factor)[0] * 2**_SHORT_BITS).is_integer()


def _in_float64(operator: str, short: Callable[[Number, Number], OnnxValue] | None = None) -> Callable[..., OnnxValue]:
    """Return a translation that writes the operator in float64 unless float32 holds the operands."""

    def translation(self: Number, other: Number) -> OnnxValue:
        write = getattr(op, operator)
        if not any(map(_is_long, (self, other))):
            brief: OnnxValue = (short or write)(self, other)
            return brief
        wide = write(_exact(self), _exact(other))
        rounded = op.Cast(wide, to=FLOAT)
        rounded.meta[_EXACT] = wide
        return rounded

    return translation


def _short_quotient(self: Number, other: Number) -> OnnxValue:
    return op.Div(op.Cast(self, to=FLOAT), op.Cast(other, to=FLOAT))


def _to_integer(operator: str) -> Callable[[Number], OnnxValue]:
    def translation(self: Number) -> OnnxValue:
        return op.Cast(getattr(op, operator)(_exact(self) if _is_long(self) else self), to=INT64)

    return translation


def _is_long(value: Number) -> bool:
    return not is_short(value) if isinstance(value, bool | int | float) else _EXACT in value.meta


def _exact(value: Number) -> OnnxValue:
    """Return a number in float64."""
    if isinstance(value, bool | int | float):
        return op.Constant(value=ir.tensor(float(value), ir.DataType.DOUBLE))
    return value.meta.get(_EXACT) or op.Cast(value, to=DOUBLE)


PATCHES = translations(
    {
        "operator.mul": _in_float64("Mul"),
        "operator.add": _in_float64("Add"),
        "operator.sub": _in_float64("Sub"),
        "operator.truediv": _in_float64("Div", _short_quotient),
        "math.floor": _to_integer("Floor"),
        "math.ceil": _to_integer("Ceil"),
        "math.trunc": _to_integer("Identity"),
    },
    why="Computes with sizes in float32, so that int(90 * 0.7) is 63 and not 62; or has no ONNX of it.",
    upstream="onnxscript/function_libs/torch_lib/ops/symops.py",
    until="it computes with sizes in float64",
)
