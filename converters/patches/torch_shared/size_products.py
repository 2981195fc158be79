"""Sizes multiplied and divided by Python's floats, for the dynamo exporter: in float64, as Python computes.

The exporter's own float32 makes 63 of 90 * 0.7, which is 62.99999999999999, so that truncation gives 63. A product
that float32 can hold, as that by a half, stays in it: TFLite has no arithmetic of float64.

So does Resize. A result's size does not tell where its elements come from; so the picture is made larger, and cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .. import private_onnxscript
from ..ledger import translations
from .dynamo_graph import Number, OnnxValue, constant_of, ir, op, size_of
from .formulas import DOUBLE, FLOAT, INT64

_EXACT = "in float64"  # what a value of float32 was rounded from, kept beside it
_SHORT_BITS = 12  # of a factor: sizes up to 4,096 times it are what float32 has


def multiplied(size: OnnxValue, factor: float) -> OnnxValue:
    """Write a size times a factor, truncated."""
    dtype = FLOAT if is_short(factor) else DOUBLE
    product = op.Mul(op.Cast(size, to=dtype), constant_of(float(factor), ir.DataType(dtype)))
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
        return constant_of(float(value), ir.DataType.DOUBLE)
    return value.meta.get(_EXACT) or op.Cast(value, to=DOUBLE)


def _resized(name: str) -> Callable[..., OnnxValue]:
    """Return a translation by torchlib's function of this name."""

    def translation(
        input: OnnxValue,  # noqa: A002  (the operator's own argument)
        output_size: object,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> OnnxValue:
        own: Callable[..., OnnxValue] = getattr(private_onnxscript.nn, name)
        if scale_factors is None or all(map(is_short, scale_factors)):
            return own(input, output_size, align_corners, scale_factors)
        sizes = op.Concat(*_scaled_sizes(input, scale_factors), axis=0)
        if align_corners:  # the places follow from the sizes alone
            return own(input, sizes, align_corners, None)
        larger = own(_with_repeated_edges(input, scale_factors), None, align_corners, scale_factors)
        axes = range(2, 2 + len(scale_factors))
        return op.Slice(larger, op.Constant(value_ints=[0 for _ in axes]), sizes, op.Constant(value_ints=[*axes]))

    return translation


def _scaled_sizes(picture: OnnxValue, factors: Sequence[float]) -> list[OnnxValue]:
    """Write the new size of each axis."""
    first = op.Constant(value_ints=[0])
    return [op.Unsqueeze(multiplied(size_of(picture, axis), factor), first) for axis, factor in enumerate(factors, 2)]


def _with_repeated_edges(picture: OnnxValue, factors: Sequence[float]) -> OnnxValue:
    """Repeat the last elements, which PyTorch reads beyond the end: as many as make one of the result."""
    ends = [0 if is_short(factor) else math.ceil(1 / factor) for factor in factors]
    pads = [0] * (2 + len(factors)) + [0, 0, *ends]
    return op.Pad(picture, op.Constant(value_ints=pads), mode="edge")


PATCHES = (
    *translations(
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
    ),
    *translations(
        {
            f"aten.{name}.vec": _resized(f"aten_{name}_vec")
            for name in ("upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")
        },
        why="Resize multiplies a size in float32: of 90 by 0.7 it makes 63, where PyTorch makes 62",
        upstream="onnxscript/function_libs/torch_lib/ops/nn.py: aten_upsample_bilinear2d_vec",
        until="torchlib computes sizes in float64, or ONNX's Resize takes sizes beside scales",
    ),
)
