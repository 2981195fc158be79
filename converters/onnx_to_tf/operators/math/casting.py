"""Casts from one dtype to another.

Dtypes that TensorFlow has no arithmetic for lie in a wider dtype that holds the same numbers (narrow_dtypes.py). A cast
to such a dtype rounds to its numbers; a cast from it only changes the dtype's name.
"""

from __future__ import annotations

import numpy as np

from ...lazy_tensorflow import tf
from ...lowerings import ANY, FLOATS, NARROW, SMALL_INTEGERS, lowers
from ...narrow_dtypes import CARRIERS
from ...operator_context import OperatorContext
from ...values import TfTensor, Value, computed

_CASTABLE = ANY | NARROW
_BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4}
_LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0}


@lowers("Cast", since=6, until=28, T1=_CASTABLE)
def cast(op: OperatorContext) -> Value:
    """Lower Cast: to another dtype; floats are cut towards zero."""
    return cast_to(op, op.value(0), dtype_named(op, op.integer("to"), _CASTABLE))


@lowers("CastLike", since=15, T1=_CASTABLE, T2=_CASTABLE)
def cast_like(op: OperatorContext) -> Value:
    """Lower CastLike: to the dtype of the second input."""
    return cast_to(op, op.value(0), op.value(1).dtype)


@lowers("BitCast", since=26, until=28, T1=ANY)
def bitcast(op: OperatorContext) -> Value:
    """Lower BitCast: the same bits under another dtype of as many bits."""
    value, dtype = op.value(0), dtype_named(op, op.integer("to"))
    layout, tensor = value.layout, value.tensor(value.layout)
    if tensor.dtype.size != tf.as_dtype(dtype).size:
        op.refuse(f"it makes {dtype} of {value.dtype}, which has not as many bits", fix="check the model")
    if "bool" in (value.dtype, dtype):  # a byte that is 0 or 1, for which TensorFlow has no bitcast
        return computed(tf.cast(tensor, dtype), layout)
    return computed(tf.bitcast(tensor, dtype), layout)


def cast_to(op: OperatorContext, value: Value, dtype: str) -> Value:
    """Cast a value to another dtype, in the layout in which it lies."""
    saturate = op.flag("saturate", True)
    op.ignore("round_mode", because="it speaks of float8_e8m0fnu, to which nothing is cast here")
    if dtype == "float8_e8m0fnu":
        op.refuse("it casts to float8_e8m0fnu", fix="cast to float32 in the model")
    if value.only_parts is not None and dtype in ("int32", "int64"):
        return op.sized(value.only_parts, scalar=value.rank == 0, dtype=dtype)
    tensor = value.tensor(value.layout)
    cast_tensor = op.kernels.cast(tensor, dtype) if dtype in ANY else round_to_dtype(tensor, dtype, saturate=saturate)
    result = computed(cast_tensor, value.layout, non_negative=value.non_negative and dtype in FLOATS, dtype=dtype)
    return result.with_parts_of(value) if dtype == "int64" else result


def round_to_dtype(tensor: TfTensor, dtype: str, *, saturate: bool = True) -> TfTensor:
    """Round a tensor to the numbers of a dtype; where the dtype has a carrier, in that."""
    if dtype in SMALL_INTEGERS:
        return _lowest_bits(tensor, _BITS[dtype], signed=dtype.startswith("int"))
    if dtype == "float4_e2m1fn":
        return _as_float4(_as_float32(tensor))
    if dtype in CARRIERS:
        return _as_float8(_as_float32(tensor), dtype, saturate=saturate)
    return tf.cast(tensor, dtype)


def _as_float32(tensor: TfTensor) -> TfTensor:
    """Cast numbers to float32 on their way to a shorter float.

    To round twice can be wrong, unless an inexact number goes the first time to the neighbour whose last bit is set,
    which is never the middle of two shorter ones.
    """
    near = tf.cast(tensor, tf.float32)
    if tensor.dtype != tf.float64:
        return near
    back = tf.cast(near, tf.float64)
    other = tf.math.nextafter(near, tf.where(back < tensor, np.float32(np.inf), np.float32(-np.inf)))
    even = tf.equal(tf.bitwise.bitwise_and(tf.bitcast(near, tf.int32), 1), 0)
    return tf.where(tf.logical_and(tf.not_equal(back, tensor), even), other, near)


def _lowest_bits(tensor: TfTensor, bits: int, *, signed: bool) -> TfTensor:
    """Discard the higher bits, and read the others in two's complement."""
    count, half = 1 << bits, (1 << bits - 1) if signed else 0
    number = tf.math.floormod(tf.cast(tensor, tf.int32) + half, count) - half
    return tf.cast(number, tf.int8 if signed else tf.uint8)


def _as_float4(x: TfTensor) -> TfTensor:
    """Round to the nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6 with x's sign, halfway to an even code; NaN becomes 6."""
    x = tf.where(tf.math.is_nan(x), 6.0, tf.clip_by_value(x, -6.0, 6.0))
    coarse = tf.where(tf.abs(x) > 4, tf.round(x * 0.5) * 2, tf.round(x))
    return tf.where(tf.abs(x) > 2, coarse, tf.round(x * 2) * 0.5)


def _as_float8(x: TfTensor, dtype: str, *, saturate: bool) -> TfTensor:
    """Round by Cast's tables, halfway to even codes; beyond the largest to it (saturate), NaN, or infinity if any."""
    if saturate:
        x = tf.where(tf.math.is_nan(x), x, tf.clip_by_value(x, -_LARGEST[dtype], _LARGEST[dtype]))
    return _as_fnuz(x, dtype) if dtype.endswith("fnuz") else tf.cast(tf.cast(x, dtype), tf.float32)


def _as_fnuz(x: TfTensor, dtype: str) -> TfTensor:
    """Round to floats of 8 bits without an infinity and a negative zero.

    Their exponents reach one lower than those of their namesakes, which TensorFlow can cast to: so numbers below 1 are
    rounded as twice themselves.

    The largest number of e4m3fnuz, 240, has a successor in e4m3fn, and that of e5m2fnuz in e5m2 is infinity. A number
    that is rounded to a successor becomes NaN.
    """
    near = dtype.removesuffix("uz") if "e4m3" in dtype else dtype.removesuffix("fnuz")

    def nearest(t: TfTensor) -> TfTensor:
        return tf.cast(tf.cast(t, near), tf.float32)

    number = tf.where(tf.abs(x) < 1, nearest(x * 2) * 0.5, nearest(x))
    number = tf.where(tf.abs(number) > _LARGEST[dtype], float("nan"), number)
    return tf.where(tf.equal(number, 0), 0.0, number)


def dtype_named(op: OperatorContext, number: int, allowed: frozenset[str] = ANY) -> str:
    """Return the dtype that ONNX calls by a number. Raises Refused where it is none of `allowed`."""
    from onnx.helper import tensor_dtype_to_np_dtype

    name = str(tensor_dtype_to_np_dtype(number).name)
    if name not in allowed:
        op.refuse(f"the dtype {name} cannot be carried", fix="use a numeric dtype of 8 bits or more")
    return name
