"""Sizes multiplied and divided by Python's floats, in the dynamo exporter: in float64, as Python's are. The exporter's
own float32 makes 63 of 90 * 0.7, which is 62.99999999999999, and cuts off nothing.

A product that float32 has, as that of a half, stays in it: TFLite has no arithmetic of float64.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .onnxscript_opset import Translations, ir, op
from .traced_symbolics import DOUBLE, FLOAT, INT64

_EXACT = "in float64"  # what a value of float32 was rounded from, kept beside it
_SHORT_BITS = 12  # of a factor: sizes up to 4,096 times it are what float32 has


def products() -> Translations:
    """A part of the dynamo exporter's `custom_translation_table`."""
    return {
        operator.mul: _computed(op.Mul),
        operator.add: _computed(op.Add),
        operator.sub: _computed(op.Sub),
        operator.truediv: _computed(op.Div, _short_quotient),
        math.floor: _made_whole(op.Floor),
        math.ceil: _made_whole(op.Ceil),
        math.trunc: _made_whole(op.Identity),
    }


def multiplied(size: Any, factor: float) -> Any:
    """How many are made of as many: the product, cut off."""
    kind = FLOAT if is_short(factor) else DOUBLE
    made = op.Mul(op.Cast(size, to=kind), op.Constant(value=ir.tensor(float(factor), ir.DataType(kind))))
    return op.Cast(made, to=INT64)


def is_short(factor: float) -> bool:
    """Whether sizes times this are what float32 has."""
    return float(math.frexp(factor)[0] * 2**_SHORT_BITS).is_integer()


def _computed(own: Callable[..., Any], short: Callable[..., Any] | None = None) -> Callable[..., Any]:
    def computed(self: Any, other: Any) -> Any:
        if not any(map(_is_long, (self, other))):
            return (short or own)(self, other)
        wide = own(_exact(self), _exact(other))
        made = op.Cast(wide, to=FLOAT)
        made.meta[_EXACT] = wide
        return made

    return computed


def _short_quotient(self: Any, other: Any) -> Any:
    return op.Div(op.Cast(self, to=FLOAT), op.Cast(other, to=FLOAT))


def _made_whole(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def made_whole(self: Any) -> Any:
        return op.Cast(own(_exact(self) if _is_long(self) else self), to=INT64)

    return made_whole


def _is_long(value: Any) -> bool:
    return not is_short(value) if isinstance(value, int | float) else _EXACT in value.meta


def _exact(value: Any) -> Any:
    """A number in float64."""
    if isinstance(value, int | float):
        return op.Constant(value=ir.tensor(float(value), ir.DataType.DOUBLE))
    return value.meta.get(_EXACT) or op.Cast(value, to=DOUBLE)
