"""Numbers as small integers or floats, with a scale and a zero point by tensor, by place or by block along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....onnx_graph.semantics.quantization_attributes import Granularity, granularity, quantized_dtype
from ...kernels.exact_quotients import divide_exactly
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, MICROSOFT, SMALL_FLOATS, SMALL_INTEGERS, lowers
from ...narrow_dtypes import CARRIERS
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, broadcast, computed, known, map_elements, reshape
from .casting import dtype_named, round_to_dtype

EIGHT_BITS = frozenset({"int8", "uint8"})
_EXPONENTS = frozenset({"float8_e8m0fnu"})  # powers of two: a scale, and nothing to quantise to
_QUANTIZED = EIGHT_BITS | {"int16", "uint16"} | SMALL_INTEGERS | (SMALL_FLOATS - _EXPONENTS)
_REAL = FLOATS | {"int32"}
_SCALES = FLOATS | _EXPONENTS
RANGES = {
    "int2": (-2, 1), "int4": (-8, 7), "int8": (-128, 127), "int16": (-32768, 32767),
    "uint2": (0, 3), "uint4": (0, 15), "uint8": (0, 255), "uint16": (0, 65535),
}  # fmt: skip


@lowers("QuantizeLinear", since=23, until=28, T1=_REAL, T2=_SCALES | {"int32"}, T3=_QUANTIZED)
@lowers("QuantizeLinear", since=10, until=22, T1=_REAL, T2=_QUANTIZED)
@lowers("QuantizeLinear", domain=MICROSOFT, T=_REAL | _QUANTIZED)
def quantize_linear(op: OperatorContext) -> Value:
    """Lower QuantizeLinear: saturate(round(x / y_scale) + y_zero_point), in the scale's dtype or in `precision`."""
    value, zero = op.value(0), op.optional(2)
    dtype, saturate = quantized_dtype(op), op.flag("saturate", True)
    if dtype not in _QUANTIZED:
        op.refuse(f"the dtype {dtype} cannot be carried", fix="use a numeric dtype of 8 bits or more")
    precision = dtype_named(op, op.integer("precision"), FLOATS) if op.integer("precision", 0) else None
    zero = zero and _broadcast_parameter(op, zero, value)
    return quantize(
        value, _broadcast_parameter(op, op.value(1), value), zero, dtype, precision=precision, saturate=saturate
    )


@lowers("DequantizeLinear", since=10, until=28, T=_QUANTIZED | {"int32"}, T1=_QUANTIZED | {"int32"}, T2=_SCALES)
@lowers("DequantizeLinear", domain=MICROSOFT, T=_QUANTIZED | {"int32"} | FLOATS)
def dequantize_linear(op: OperatorContext) -> Value:
    """Lower DequantizeLinear: (x - x_zero_point) x_scale, in the scale's dtype or in `output_dtype`."""
    value, scale = op.value(0), op.value(1)
    dtype = dtype_named(op, op.integer("output_dtype"), FLOATS) if op.integer("output_dtype", 0) else scale.dtype
    if dtype not in FLOATS:
        op.refuse(f"its scale is {dtype}, and no output_dtype says what to make", fix="check the model")
    zero = op.optional(2)
    return dequantize(
        value, _broadcast_parameter(op, scale, value), zero and _broadcast_parameter(op, zero, value), dtype
    )


@lowers("DynamicQuantizeLinear", since=11, T1=frozenset({"float32"}))
def dynamic_quantize_linear(op: OperatorContext) -> list[Value]:
    """Lower DynamicQuantizeLinear: uint8 by the tensor's own range, 0 included; then the scale and the zero point."""
    return quantize_dynamically(op.value(0))


def quantize(
    value: Value,
    scale: Value,
    zero: Value | None,
    dtype: str,
    *,
    precision: str | None = None,
    saturate: bool = True,
) -> Value:
    """Return round(value / scale) + zero in a dtype, where scale and zero broadcast to the value. Halves go to even."""
    divided_in = precision or ("float64" if scale.dtype == "int32" else scale.tensor().dtype.name)

    def function(x: TfTensor, s: TfTensor, *z: TfTensor) -> TfTensor:
        ratio = divide_exactly(tf.cast(x, divided_in), tf.cast(s, divided_in))
        if dtype in SMALL_FLOATS:
            return round_to_dtype(ratio + tf.cast(z[0], ratio.dtype) if z else ratio, dtype, saturate=saturate)
        rounded = tf.round(ratio)
        rounded = rounded if rounded.dtype == tf.float64 else tf.cast(rounded, tf.float32)
        return add_zero_point(rounded, z[0] if z else None, dtype)

    result = broadcast(function, value, scale, *_unless_zero(zero))
    return replace(result, dtype=dtype)  # the dtype's own name, where the tensor only carries it


def add_zero_point(numbers: TfTensor, zero: TfTensor | None, dtype: str) -> TfTensor:
    """Add a zero point to whole numbers, and clip to the range of an integer dtype."""
    low, high = RANGES[dtype]
    moved = numbers if zero is None else numbers + tf.cast(zero, numbers.dtype)
    return tf.cast(tf.clip_by_value(moved, low, high), CARRIERS.get(dtype, dtype))


def dequantize(value: Value, scale: Value, zero: Value | None, dtype: str = "float32") -> Value:
    """Return (value - zero) scale, where both broadcast to the value; multiplied in float32, then cast to the dtype."""
    exact = tf.int32 if value.dtype == "int32" else tf.float32  # which holds every difference of shorter numbers

    def function(x: TfTensor, s: TfTensor, *z: TfTensor) -> TfTensor:
        wide = tf.cast(x, exact) - tf.cast(z[0], exact) if z else x
        return tf.cast(tf.cast(wide, tf.float32) * tf.cast(s, tf.float32), dtype)

    return broadcast(function, value, scale, *_unless_zero(zero))


def quantize_dynamically(value: Value) -> list[Value]:
    """Quantise float32 to uint8, scale, zero point; of zeros the scale is 1 (ONNX Runtime), not the formula's 0."""
    x = value.tensor(value.layout)
    low, high = tf.minimum(tf.reduce_min(x), 0.0), tf.maximum(tf.reduce_max(x), 0.0)
    scale = tf.where(tf.equal(low, high), 1.0, divide_exactly(high - low, tf.constant(255.0)))
    zero = tf.round(tf.clip_by_value(-low / scale, 0.0, 255.0))
    numbers = map_elements(value, lambda t: add_zero_point(tf.round(t / scale), zero, "uint8"))
    return [numbers, computed(scale), computed(tf.cast(zero, tf.uint8))]


def _unless_zero(point: Value | None) -> list[Value]:
    """Return a zero point that has to be taken into account, or nothing."""
    if point is None or (point.array is not None and not np.any(point.array.astype(np.float32))):
        return []
    return [point]


def _broadcast_parameter(op: OperatorContext, part: Value, value: Value) -> Value:
    """Reshape a scale or a zero point, of the tensor, an axis or blocks along it, to broadcast to the value."""
    grain, axis, block = granularity(op, part, value)
    if grain is Granularity.TENSOR:
        return reshape_parameter(part, ()) if part.rank else part
    if grain is Granularity.BLOCK:
        return repeat_in_blocks(part, axis, block, value.size(axis))
    if grain is Granularity.ELEMENT:
        return part
    return reshape_parameter(part, [part.size(0) if at == axis else 1 for at in range(value.rank)])


def repeat_in_blocks(part: Value, axis: int, block: int, size: Size) -> Value:
    """Repeat each place along an axis as often as a block is long; the last block is cut where the axis ends."""
    if part.array is not None and isinstance(size, int):
        repeated = np.repeat(part.array, block, axis)
        return known(repeated[(slice(None),) * axis + (slice(size),)], part.weights)
    sizes = [part.size(at) for at in range(part.rank)]
    copies = tf.tile(tf.expand_dims(part.tensor(), axis + 1), [1] * (axis + 1) + [block] + [1] * (part.rank - axis - 1))
    all_blocks = reshape(copies, [length * block if at == axis else length for at, length in enumerate(sizes)])
    return computed(all_blocks[(slice(None),) * axis + (slice(size),)], dtype=part.dtype)


def reshape_parameter(part: Value, target: Sequence[Size]) -> Value:
    """Reshape a scale or a zero point."""
    if part.array is not None and all(isinstance(size, int) for size in target):
        return known(part.array.reshape(target), part.weights)
    return computed(reshape(part.tensor(), target), dtype=part.dtype)
