"""Numbers drawn at random: anew at every call, and never while lowering.

A seed makes the numbers repeat from the moment that the model is loaded, not at every call; ONNX Runtime does so too.
Which numbers a seed stands for is each implementation's own, as the specification says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...lazy_tensorflow import tf
from ...lowerings import ANY, FLOATS, INDICES, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, computed, pack_sizes
from .casting import dtype_named


@lowers("RandomNormal", "RandomUniform", since=1, folds=False)
@lowers("RandomNormalLike", "RandomUniformLike", since=1, folds=False, T1=ANY)
def random_numbers(op: OperatorContext) -> Value:
    """Lower RandomNormal and RandomUniform, of a shape that the model names, and the Like ones, of the input's."""
    named = not op.op_type.endswith("Like")
    shape, dtype = (op.ints("shape"), dtype_named(op, op.integer("dtype", 1), FLOATS)) if named else _like(op)
    return computed((_normal if "Normal" in op.op_type else _uniform)(op, shape, dtype))


@lowers("Bernoulli", since=15, folds=False, T1=FLOATS)
def bernoulli(op: OperatorContext) -> Value:
    """Lower Bernoulli: 1 as often as the input says, and else 0."""
    value = op.value(0)
    dtype = dtype_named(op, op.integer("dtype")) if op.has("dtype") else value.dtype
    drawn = tf.raw_ops.RandomUniform(**_draw(op, _sizes(value), value.dtype))
    return computed(tf.cast(drawn < tf.cast(value.tensor(), drawn.dtype), dtype))


@lowers("Multinomial", since=7, folds=False, T1=frozenset({"float16", "float32", "float64"}))
def multinomial(op: OperatorContext) -> Value:
    """Lower Multinomial: classes of each sample, drawn by log-probabilities that need not be normalised."""
    dtype = dtype_named(op, op.integer("dtype", 6), INDICES)
    logits = tf.cast(op.tensor(0), tf.float32)
    drawn = tf.raw_ops.Multinomial(
        logits=logits, num_samples=op.integer("sample_size", 1), output_dtype=tf.as_dtype(dtype), **_seeds(op)
    )
    return computed(drawn)


def _like(op: OperatorContext) -> tuple[list[Size], str]:
    """Return shape and dtype of an operator that takes both from its input."""
    value = op.value(0)
    if op.has("dtype"):
        return _sizes(value), dtype_named(op, op.integer("dtype"), FLOATS)
    if value.dtype not in FLOATS:
        op.refuse(f"it draws {value.dtype}, as its input is", fix="name a dtype of floats")
    return _sizes(value), value.dtype


def _sizes(value: Value) -> list[Size]:
    return [value.size(axis) for axis in range(value.rank)]


def _normal(op: OperatorContext, shape: Sequence[Size], dtype: str) -> TfTensor:
    drawn = tf.raw_ops.RandomStandardNormal(**_draw(op, shape, dtype))
    return tf.cast(drawn * op.real("scale", 1.0) + op.real("mean", 0.0), dtype)


def _uniform(op: OperatorContext, shape: Sequence[Size], dtype: str) -> TfTensor:
    drawn, low, high = tf.raw_ops.RandomUniform(**_draw(op, shape, dtype)), op.real("low", 0.0), op.real("high", 1.0)
    return tf.cast(drawn * (high - low) + low, dtype)


def _draw(op: OperatorContext, shape: Sequence[Size], dtype: str) -> dict[str, Any]:
    """Return the arguments of both of TensorFlow's operators; float32, or float64 where the model has that."""
    vector = tf.convert_to_tensor(pack_sizes(shape), tf.int32)
    return {"shape": vector, "dtype": tf.float64 if dtype == "float64" else tf.float32, **_seeds(op)}


def _seeds(op: OperatorContext) -> dict[str, Any]:
    """Return TensorFlow's two seeds from ONNX's bits; two zeros are none. tf.random would mix in the process's seed."""
    if not op.has("seed"):
        return {"seed": 0, "seed2": 0}
    return {"seed": int(np.float32(op.real("seed")).view(np.int32)), "seed2": 1}
