"""Constants, counted numbers, and values that pass through."""

from __future__ import annotations

import numpy as np

from ....onnx_graph.semantics.former_attributes import constant_array
from ...lazy_tensorflow import tf
from ...lowerings import ANY, NUMBERS, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, computed, is_axis_size, is_same_size, pack_sizes
from ..math.casting import dtype_named


@lowers("Constant", since=1)
def constant(op: OperatorContext) -> Value:
    """Lower Constant: a tensor, a number or a list of them."""
    return op.known(constant_array(op))


@lowers("Identity", since=1, T=ANY, V=ANY)
@lowers("OptionalGetElement", since=15, until=28, O=ANY)
def identity(op: OperatorContext) -> Value:
    """Lower Identity, of a sequence of tensors too, and OptionalGetElement: the input."""
    return op.anything(0) or op.value(0)


@lowers("ConstantOfShape", since=9, T1=frozenset({"int64"}))
def constant_of_shape(op: OperatorContext) -> Value:
    """Lower ConstantOfShape: one number, as many times as the shape says; 0.0 where none is given."""
    number = op.tensor_attribute("value").reshape(()) if op.has("value") else np.float32(0)
    target = op.sizes(0, "shape")
    if all(isinstance(size, int) for size in target):
        return op.known(np.full(target, number))
    return computed(tf.fill(pack_sizes(target), tf.constant(number))).with_sizes(target)


@lowers("EyeLike", since=9, T1=NUMBERS | {"bool"})
def eye_like(op: OperatorContext) -> Value:
    """Lower EyeLike: ones on a diagonal of a matrix of the input's shape."""
    value, shift = op.value(0), op.integer("k", 0)
    dtype = dtype_named(op, op.integer("dtype")) if op.has("dtype") else value.dtype
    rows, columns = (tf.range(value.size(axis)) for axis in (0, 1))
    return computed(tf.cast(tf.equal(columns[None, :], rows[:, None] + shift), dtype))


_COUNTED = frozenset({"float16", "bfloat16", "float32", "float64", "int16", "int32", "int64"})


@lowers("Range", since=11, until=28, T=_COUNTED)
def number_range(op: OperatorContext) -> Value:
    """Lower Range: start + i delta below limit; 16-bit floats in float32 as stash_type says, sizes as sizes."""
    inputs, dtype = [op.value(at) for at in range(3)], op.value(0).dtype
    if op.integer("stash_type", 1) != 1 and dtype in ("float16", "bfloat16"):
        op.refuse(f"its stash_type is {op.integer('stash_type')}, and only 1 (float32) can be carried")
    parts = [value.size_parts(exact=True) for value in inputs]
    if None not in parts and any(value.parts is not None for value in inputs):
        start, limit, delta = (part for number in parts for part in number or ())
    else:
        start, limit, delta = (tf.reshape(value.tensor(), []) for value in inputs)
        if dtype in ("float16", "bfloat16", "int16"):
            wide = tf.int32 if dtype == "int16" else tf.float32
            start, limit, delta = (tf.cast(number, wide) for number in (start, limit, delta))
    return computed(tf.cast(_count(start, limit, delta), dtype)).with_sizes(
        [limit] if is_same_size(start, 0) and is_same_size(delta, 1) else []
    )


def _count(start: Size, limit: Size, delta: Size) -> TfTensor:
    """Return TensorFlow's range, which wants a limit on the side of the start to which the steps go."""
    if isinstance(limit, int) or not (is_same_size(start, 0) and is_same_size(delta, 1) and is_axis_size(limit)):
        limit = tf.where(tf.cast(delta, tf.float32) > 0, tf.maximum(limit, start), tf.minimum(limit, start))
    return tf.range(start, limit, delta)
