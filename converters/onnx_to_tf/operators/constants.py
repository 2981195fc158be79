"""Values that come from nowhere, and values that pass through."""

from __future__ import annotations

import numpy as np

from ..lazy import tf
from ..reader import Op
from ..registry import ANY, NUMBERS, lowers
from ..values import Value, pack


@lowers("Constant", since=1)
def constant(op: Op) -> Value:
    """A tensor, a number or a list of them."""
    if op.has("value"):
        return op.known(op.tensor_attribute("value"))
    if op.has("value_float"):
        return op.known(np.array(op.real("value_float"), np.float32))
    if op.has("value_floats"):
        return op.known(np.array(op.floats("value_floats"), np.float32))
    if op.has("value_int"):
        return op.known(np.array(op.integer("value_int"), np.int64))
    return op.known(np.array(op.ints("value_ints"), np.int64))


@lowers("Identity", since=1, T=ANY, V=ANY)
def identity(op: Op) -> Value:
    """X, a sequence of tensors too."""
    return op.anything(0) or op.value(0)


@lowers("ConstantOfShape", since=9, T1=frozenset({"int64"}))
def constant_of_shape(op: Op) -> Value:
    """One number, as many times as the shape says; 0.0 where none is given."""
    number = op.tensor_attribute("value").reshape(()) if op.has("value") else np.float32(0)
    target = op.sizes(0, "shape")
    if all(isinstance(size, int) for size in target):
        return op.known(np.full(target, number))
    return op.computed(tf.fill(pack(target), tf.constant(number)))


@lowers("EyeLike", since=9, T1=NUMBERS | {"bool"})
def eye_like(op: Op) -> Value:
    """Ones on a diagonal of a matrix of the input's shape."""
    from .casting import dtype_named

    value, shift = op.value(0), op.integer("k", 0)
    dtype = dtype_named(op, op.integer("dtype")) if op.has("dtype") else value.dtype
    rows, columns = (tf.range(value.size(axis)) for axis in (0, 1))
    return op.computed(tf.cast(tf.equal(columns[None, :], rows[:, None] + shift), dtype))


@lowers("Range", since=11, T=frozenset({"float32", "float64", "int16", "int32", "int64"}))
def number_range(op: Op) -> Value:
    """start, start + step, ... below the limit."""
    start, limit, step = (tf.reshape(op.tensor(at), []) for at in range(3))
    if start.dtype == tf.int16:
        return op.computed(tf.cast(tf.range(*[tf.cast(each, tf.int32) for each in (start, limit, step)]), tf.int16))
    return op.computed(tf.range(start, limit, step))
