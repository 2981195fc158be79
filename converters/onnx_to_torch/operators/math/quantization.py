"""Numbers as small integers, with a scale and a zero point: one for the tensor, for each place along an axis, or for
each block along it."""

from __future__ import annotations

from ...operator_context import Op
from ...values import Value
from ...writers import FLOATS, Written, writes

_RANGES = {"int8": (-128, 127), "int16": (-32768, 32767), "uint8": (0, 255), "uint16": (0, 65535)}
_QUANTIZED = frozenset(_RANGES)
_REAL = FLOATS | {"int32"}


@writes("QuantizeLinear", since=23, until=28, T1=_REAL, T2=FLOATS, T3=_QUANTIZED)
@writes("QuantizeLinear", since=10, until=22, T1=_REAL, T2=_QUANTIZED)
def quantize(op: Op) -> Written:
    """saturate(round(x / scale) + zero), the quotient in the scale's dtype."""
    x, scale, zero = op.value(0), op.value(1), op.optional(2)
    if scale.dtype not in FLOATS:
        op.refuse(f"its scale is {scale.dtype}", fix="use a float32 scale")
    asked = _dtype(op, "output_dtype")
    if op.integer("precision", 0):
        op.refuse("its attribute precision is not carried", fix="leave precision out")
    op.ignore("saturate", because="it speaks of float8 alone, which is refused above")
    dtype = zero.dtype if zero is not None else asked or "uint8"
    if dtype not in _RANGES or asked not in (None, dtype):
        op.refuse(f"its output is {asked or dtype}", fix=f"quantise to one of {', '.join(_RANGES)}")
    low, high = _RANGES[dtype]
    point = f"torch.zeros((), dtype=torch.{dtype}, device={x}.device)" if zero is None else _spread(op, zero, x)
    return f"quantized({x}, {_spread(op, scale, x)}, {point}, {low}, {high})"


@writes("DequantizeLinear", since=23, until=28, folds=False, T1=_QUANTIZED | {"int32"}, T2=FLOATS)
@writes("DequantizeLinear", since=10, until=22, folds=False, T=_QUANTIZED | {"int32"}, T1=_QUANTIZED | {"int32"})
def dequantize(op: Op) -> Written:
    """(x - zero) scale, in the scale's dtype."""
    x, scale, zero = op.value(0), op.value(1), op.optional(2)
    if scale.dtype not in FLOATS or _dtype(op, "output_dtype") not in (None, scale.dtype):
        op.refuse(f"its scale is {scale.dtype} and its output another dtype", fix="use a float32 scale")
    point = f"torch.zeros((), dtype=torch.int32, device={x}.device)" if zero is None else _spread(op, zero, x)
    return f"dequantized({x}, {_spread(op, scale, x)}, {point})"


@writes("DynamicQuantizeLinear", since=11)
def quantize_dynamically(op: Op) -> Written:
    """Into uint8 by the tensor's own range: the numbers, the scale and the zero point."""
    return op.unpack(f"quantized_by_range({op.value(0)})", 3)


def _dtype(op: Op, name: str) -> str | None:
    from onnx.helper import tensor_dtype_to_np_dtype

    number = op.integer(name, 0)
    return tensor_dtype_to_np_dtype(number).name if number else None


def _spread(op: Op, part: Value, x: Value) -> str:
    """A scale or a zero point in a shape that broadcasts to x."""
    axis, block = op.integer("axis", 1), op.integer("block_size", 0)
    if part.rank == 0:
        return f"{part}"
    if part.shape == (1,):
        return f"{part}.reshape(())"
    if x.rank == 1 and not block:  # the axis says nothing
        return f"{part}"
    if not -x.rank <= axis < x.rank or part.rank != (x.rank if block else 1):
        op.refuse(f"a scale or zero point with {part.rank} axes along the axis {axis} of {x.rank}", fix="check it")
    axis %= x.rank
    if block:
        return f"in_blocks({part}, {axis}, {block}, {x.size(axis)})"
    after = x.rank - axis - 1
    return f"{part}.reshape(-1{', 1' * after})" if after else f"{part}"
