"""Normalisations and softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....onnx_graph.semantics.axis_lists import softmax_axes
from ...common.attention_core import widen
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, lowers
from ...operator_context import OperatorContext
from ...values import Layout, TfTensor, Value, broadcast, computed, known, map_elements, product, reshape
from ..math.casting import dtype_named


@lowers("BatchNormalization", since=7, T=FLOATS, T1=FLOATS, T2=FLOATS, U=FLOATS)
def batch_normalization(op: OperatorContext) -> Value:
    """Lower BatchNormalization: scale (x - mean) / sqrt(var + epsilon) + bias along axis 1; training is refused."""
    if op.flag("training_mode"):
        op.refuse("it was exported in training mode", fix="call eval() on the model before you export it")
    op.ignore("momentum", because="it only matters in training")
    value, epsilon = op.value(0), op.real("epsilon", 1e-5)
    rank = value.rank if op.version >= 9 or op.flag("spatial", True) else None  # else a mean for each place
    scale, bias, mean, variance = (op.value(at) for at in range(1, 5))
    if all(vector.array is not None for vector in (scale, bias, mean, variance)):
        arrays = [np.asarray(vector.array, np.float64) for vector in (scale, bias, mean, variance)]
        factor = arrays[0] / np.sqrt(arrays[3] + epsilon)
        offset = arrays[1] - arrays[2] * factor
        factors = [_per_channel(op.known(vector.astype(value.dtype)), rank) for vector in (factor, offset)]
        return broadcast(lambda t, k, c: t * k + c, value, *factors)

    def normal(t: TfTensor, k: TfTensor, c: TfTensor, m: TfTensor, v: TfTensor) -> TfTensor:
        return (t - m) * (k * tf.math.rsqrt(v + tf.cast(epsilon, v.dtype))) + c

    return broadcast(normal, value, *[_per_channel(vector, rank) for vector in (scale, bias, mean, variance)])


def _per_channel(vector: Value, rank: int | None) -> Value:
    """Reshape a vector over axis 1 to broadcast to values of `rank` axes; without a rank it broadcasts as it is."""
    if rank is None:
        return vector
    shape = (-1, *[1] * (rank - 2))
    if vector.array is not None:
        return known(vector.array.reshape(shape), vector.weights)
    return computed(tf.reshape(vector.tensor(), shape))


def normalize(tensor: TfTensor, axes: Sequence[int], epsilon: float) -> tuple[TfTensor, TfTensor, TfTensor]:
    """Return (x - mean) / sqrt(var + epsilon) over `axes`, the mean, and 1 / sqrt(var + epsilon)."""
    mean = tf.reduce_mean(tensor, axes, keepdims=True)
    centred = tensor - mean
    variance = tf.reduce_mean(tf.square(centred), axes, keepdims=True)
    inverse = tf.math.rsqrt(variance + tf.cast(epsilon, tensor.dtype))
    return centred * inverse, mean, inverse


def normalize_by_root_mean_square(tensor: TfTensor, axes: Sequence[int], epsilon: float) -> tuple[TfTensor, TfTensor]:
    """Return x / sqrt(mean(x x) + epsilon) over `axes`, and the factor."""
    square = tf.reduce_mean(tf.square(tensor), axes, keepdims=True)
    inverse = tf.math.rsqrt(square + tf.cast(epsilon, tensor.dtype))
    return tensor * inverse, inverse


def _stash(op: OperatorContext) -> str:
    """Return the dtype of the first stage: everything but scale and bias."""
    name = dtype_named(op, op.integer("stash_type", 1))
    if name not in FLOATS:
        op.refuse(f"its attribute stash_type is {name}", fix="check the model")
    return name


def axes_from_attribute(op: OperatorContext, value: Value) -> list[int]:
    """Return the axes from the attribute `axis` on."""
    return list(range(op.integer("axis", -1) % value.rank, value.rank))


@lowers("LayerNormalization", since=17, T=FLOATS, U=FLOATS)
def layer_normalization(op: OperatorContext) -> list[Value]:
    """Lower LayerNormalization: over the axes from `axis` on, then scale and bias; also mean and inverse deviation."""
    value, stash = op.value(0), _stash(op)
    wide = widen(tf.cast(value.tensor(), stash))
    normalized, mean, inverse = normalize(wide, axes_from_attribute(op, value), op.real("epsilon", 1e-5))
    answer = tf.cast(normalized, value.dtype) * op.tensor(1)
    bias = op.optional(2)
    answer = answer if bias is None else answer + bias.tensor()
    return [computed(answer).with_sizes_of(value), *(computed(tf.cast(part, stash)) for part in (mean, inverse))]


@lowers("RMSNormalization", since=23, T=FLOATS, V=FLOATS)
def rms_normalization(op: OperatorContext) -> Value:
    """Lower RMSNormalization: x / sqrt(mean(x x) + epsilon) from `axis` on, times scale, in the dtype of the scale."""
    value, scale = op.value(0), op.value(1)
    wide = widen(tf.cast(value.tensor(), _stash(op)))
    normalized, _ = normalize_by_root_mean_square(wide, axes_from_attribute(op, value), op.real("epsilon", 1e-5))
    rounded = tf.cast(tf.cast(normalized, value.dtype), scale.dtype)
    return computed(rounded * scale.tensor()).with_sizes_of(value)


@lowers("InstanceNormalization", since=6, T=FLOATS)
def instance_normalization(op: OperatorContext) -> Value:
    """Lower InstanceNormalization: over the spatial axes of each sample and channel, then scale and bias."""
    value, epsilon = op.value(0), op.real("epsilon", 1e-5)
    axes = sorted(value.place(axis) for axis in range(2, value.rank))
    wide, _, _ = normalize(widen(value.tensor(value.layout)), axes, epsilon)
    normalized = computed(tf.cast(wide, value.dtype), value.layout).with_sizes_of(value)
    factors = [_per_channel(op.value(at), value.rank) for at in (1, 2)]
    return broadcast(lambda t, k, c: t * k + c, normalized, *factors)


@lowers("GroupNormalization", since=18, T=FLOATS)
def group_normalization(op: OperatorContext) -> Value:
    """Lower GroupNormalization: over groups of channels of each sample, then scale and bias for each channel."""
    value, groups, epsilon = op.value(0), op.integer("num_groups"), op.real("epsilon", 1e-5)
    channels = value.shape[1]
    if channels is None:
        op.refuse("its number of channels is known only when the model runs", fix="fix it when exporting")
    repeats = 1 if op.version >= 21 else channels // groups
    native = value.tensor(Layout.CHANNELS_LAST)
    spatial = [value.size(axis) for axis in range(2, value.rank)]
    apart = reshape(native, [value.size(0), *spatial, groups, channels // groups])
    wide = widen(tf.cast(apart, _stash(op)))
    normalized, _, _ = normalize(wide, [*range(1, value.rank - 1), value.rank], epsilon)
    joined = reshape(tf.cast(normalized, native.dtype), [value.size(0), *spatial, channels])
    result = computed(joined, Layout.CHANNELS_LAST).with_sizes_of(value)
    vectors = [op.value(at) for at in (1, 2)]
    if repeats > 1:
        vectors = [map_elements(vector, lambda t: tf.repeat(t, repeats)) for vector in vectors]
    factors = [_per_channel(vector, value.rank) for vector in vectors]
    return broadcast(lambda t, k, c: t * k + c, result, *factors)


@lowers("LpNormalization", since=1, T=FLOATS)
def lp_normalization(op: OperatorContext) -> Value:
    """Lower LpNormalization: x over its 1-norm or 2-norm along an axis; 0 where the norm is 0."""
    value, power = op.value(0), op.integer("p", 2)
    axis = value.place(op.integer("axis", -1) % value.rank)
    if power not in (1, 2):
        op.refuse(f"its attribute p is {power}, and only 1 and 2 are defined", fix="check the model")

    def function(t: TfTensor) -> TfTensor:
        if power == 1:
            norm = tf.reduce_sum(tf.abs(t), axis, keepdims=True)
        else:
            norm = tf.sqrt(tf.reduce_sum(tf.square(t), axis, keepdims=True))
        return tf.math.divide_no_nan(t, norm)

    return map_elements(value, function)


@lowers("MeanVarianceNormalization", since=9, T=FLOATS)
def mean_variance_normalization(op: OperatorContext) -> Value:
    """Lower MeanVarianceNormalization: (x - mean) / (deviation + 1e-9) over the axes, the specification's own body."""
    value = op.value(0)
    axes = [value.place(axis % value.rank) for axis in op.ints("axes", (0, 2, 3))]

    def function(t: TfTensor) -> TfTensor:
        mean = tf.reduce_mean(t, axes, keepdims=True)
        deviation = tf.sqrt(tf.reduce_mean(tf.square(t), axes, keepdims=True) - tf.square(mean))
        return (t - mean) / (deviation + tf.cast(1e-9, t.dtype))

    return map_elements(value, function)


@lowers("LRN", since=1, T=FLOATS)
def local_response_normalization(op: OperatorContext) -> Value:
    """Lower LRN: x / (bias + alpha / size * the squares' sum over the channels around) ** beta."""
    alpha, beta, bias, size = op.real("alpha", 1e-4), op.real("beta", 0.75), op.real("bias", 1.0), op.integer("size")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    native, rank, channels = op.tensor(0, Layout.CHANNELS_LAST), op.value(0).rank, op.value(0).shape[1]
    if channels is None:
        op.refuse("its number of channels is known only when the model runs", fix="fix it when exporting")
    squares = tf.pad(tf.square(native), [(0, 0)] * (rank - 1) + [(before, after)])
    total = tf.add_n([squares[..., at : at + channels] for at in range(size)])
    scale = tf.pow(
        tf.cast(bias, native.dtype) + tf.cast(alpha / size, native.dtype) * total, tf.cast(beta, native.dtype)
    )
    return computed(native / scale, Layout.CHANNELS_LAST)


@lowers("Softmax", "LogSoftmax", "Hardmax", since=1, T=FLOATS)
def softmax(op: OperatorContext) -> Value:
    """Lower Softmax: exp(x) over its sum along one axis."""
    value, axes = op.value(0), softmax_axes(op)
    functions = {"Softmax": tf.nn.softmax, "LogSoftmax": tf.nn.log_softmax, "Hardmax": _hardmax}
    function = functions[op.op_type]
    if not axes.flattens:
        return _softmax_along(function, value, axes.axis, non_negative=op.op_type != "LogSoftmax")
    sizes = [value.size(axis) for axis in range(value.rank)]
    flat = reshape(value.tensor(), [product(sizes[: axes.axis]), product(sizes[axes.axis :])])
    return computed(reshape(function(flat, -1), sizes))


_MOST_SOFTMAX = 5  # axes that TensorFlow's kernel on a CPU takes


def _softmax_along(function: Callable[..., TfTensor], value: Value, axis: int, *, non_negative: bool = False) -> Value:
    """Apply a softmax along a logical axis, with the axes before it, and those after it, merged where they are many."""
    place = value.place(axis)
    if value.rank <= _MOST_SOFTMAX:
        return map_elements(value, lambda t: function(t, place), non_negative=non_negative)
    sizes = [value.size(other) for other in value.layout.order(value.rank)]
    merged = reshape(value.tensor(value.layout), [product(sizes[:place]), sizes[place], product(sizes[place + 1 :])])
    result = reshape(function(merged, 1), sizes)
    return computed(result, value.layout, non_negative=non_negative).with_sizes_of(value)


def _hardmax(tensor: TfTensor, axis: int) -> TfTensor:
    return tf.one_hot(tf.argmax(tensor, axis), tf.shape(tensor)[axis], axis=axis, dtype=tensor.dtype)
