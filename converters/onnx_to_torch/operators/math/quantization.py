"""Quantisation with a scale and a zero point: for the tensor, or each place or block along an axis."""

from __future__ import annotations

from ....onnx_graph.semantics.quantization_attributes import Granularity, granularity, quantized_dtype
from ...values import Expression
from ...writers import FLOATS, CodegenContext, OutputCode, writes

_RANGES = {"int8": (-128, 127), "int16": (-32768, 32767), "uint8": (0, 255), "uint16": (0, 65535)}
_QUANTIZED = frozenset(_RANGES)
_REAL = FLOATS | {"int32"}


@writes("QuantizeLinear", since=23, until=28, T1=_REAL, T2=FLOATS, T3=_QUANTIZED)
@writes("QuantizeLinear", since=10, until=22, T1=_REAL, T2=_QUANTIZED)
def quantize(op: CodegenContext) -> OutputCode:
    """Write QuantizeLinear: saturate(round(x / scale) + zero), the quotient in the scale's dtype."""
    x, scale, zero = op.value(0), op.value(1), op.optional(2)
    if scale.dtype not in FLOATS:
        op.refuse(f"its scale is {scale.dtype}", fix="use a float32 scale")
    if op.integer("precision", 0):
        op.refuse("its attribute precision is not carried", fix="leave precision out")
    op.ignore("saturate", because="it speaks of float8 alone, which is refused above")
    dtype = quantized_dtype(op)
    if dtype not in _RANGES:
        op.refuse(f"its output is {dtype}", fix=f"quantise to one of {', '.join(_RANGES)}")
    low, high = _RANGES[dtype]
    point = f"torch.zeros((), dtype=torch.{dtype}, device={x}.device)" if zero is None else _spread(op, zero, x)
    return f"quantized({x}, {_spread(op, scale, x)}, {point}, {low}, {high})"


@writes("DequantizeLinear", since=23, until=28, folds=False, T1=_QUANTIZED | {"int32"}, T2=FLOATS)
@writes("DequantizeLinear", since=10, until=22, folds=False, T=_QUANTIZED | {"int32"}, T1=_QUANTIZED | {"int32"})
def dequantize(op: CodegenContext) -> OutputCode:
    """Write DequantizeLinear: (x - zero) scale, in the scale's dtype."""
    x, scale, zero = op.value(0), op.value(1), op.optional(2)
    if scale.dtype not in FLOATS or op.dtype("output_dtype", 0) not in ("", scale.dtype):
        op.refuse(f"its scale is {scale.dtype} and its output another dtype", fix="use a float32 scale")
    point = f"torch.zeros((), dtype=torch.int32, device={x}.device)" if zero is None else _spread(op, zero, x)
    return f"dequantized({x}, {_spread(op, scale, x)}, {point})"


@writes("DynamicQuantizeLinear", since=11)
def quantize_dynamically(op: CodegenContext) -> OutputCode:
    """Write DynamicQuantizeLinear: uint8 by the tensor's own range; the numbers, the scale and the zero point."""
    return op.unpack(f"quantized_by_range({op.value(0)})", 3)


def _spread(op: CodegenContext, part: Expression, x: Expression) -> str:
    """Return a scale or a zero point in a shape that broadcasts to x."""
    grain, axis, block = granularity(op, part, x)
    if grain is Granularity.TENSOR:
        return f"{part}.reshape(())" if part.rank else f"{part}"
    if grain is Granularity.BLOCK:
        return f"in_blocks({part}, {axis}, {block}, {x.size(axis)})"
    after = x.rank - axis - 1 if grain is Granularity.AXIS else 0
    return f"{part}.reshape(-1{', 1' * after})" if after else f"{part}"
