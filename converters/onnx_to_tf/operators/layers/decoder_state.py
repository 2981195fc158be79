"""What decoders keep from one step to the next: caches that are written in place, and the end of a convolution."""

from __future__ import annotations

from ...lazy_tensorflow import tf
from ...lowerings import ANY, FLOATS, lowers
from ...operator_context import OperatorContext
from ...values import Value, computed, index_range, widen


@lowers("TensorScatter", since=24, T=ANY)
def tensor_scatter(op: OperatorContext) -> Value:
    """Lower TensorScatter: `update` written into the cache from each sample's place on; `circular` goes round."""
    cache, update, start = op.value(0), op.value(1), op.optional(2)
    axis = op.integer("axis", -2) % cache.rank
    circular = op.word("mode", "linear", ("linear", "circular")) == "circular"
    if axis == 0:
        op.refuse("its attribute axis is that of the batch", fix="check the model")
    batch, length, most = cache.size(0), update.size(axis), cache.size(axis)
    at = tf.zeros([1, 1], tf.int32) if start is None else tf.cast(start.tensor(), tf.int32)[:, None]
    at = at + index_range(length)[None]
    at = at % most if circular else at
    sample = index_range(batch)[:, None] + tf.zeros_like(at)
    order = [0, axis, *(other for other in range(1, cache.rank) if other != axis)]
    places_of = tf.stack([sample, at + tf.zeros_like(sample)], -1)
    written = tf.tensor_scatter_nd_update(
        tf.transpose(cache.tensor(), order), places_of, tf.transpose(update.tensor(), order)
    )
    return computed(tf.transpose(written, [order.index(other) for other in range(cache.rank)]))


@lowers("CausalConvWithState", since=27, until=28, T=FLOATS)
def causal_conv_with_state(op: OperatorContext) -> list[Value]:
    """Lower CausalConvWithState: each channel of (batch, channels, length) by a kernel over the past; and its end."""
    value, kernel, bias, past = op.value(0), op.value(1), op.optional(2), op.optional(3)
    taps, length = kernel.shape[2], value.size(2)
    if taps is None:
        op.refuse("the size of its kernel is not known", fix="fix it when exporting")
    wide, weight = widen(value.tensor()), widen(kernel.tensor())
    if past is None:
        extended = tf.pad(wide, [[0, 0], [0, 0], [taps - 1, 0]])
    else:
        extended = tf.concat([widen(past.tensor()), wide], 2)
    total = tf.add_n([extended[:, :, at : at + length] * weight[:, 0, at, None] for at in range(taps)])
    if bias is not None:
        total = total + widen(bias.tensor())[:, None]
    if op.word("activation", "none", ("none", "silu", "swish")) != "none":
        total = total * tf.sigmoid(total)
    answer, state = tf.cast(total, value.dtype), tf.cast(extended[:, :, length:], value.dtype)
    return [computed(answer).with_sizes_of(value), computed(state)]
