"""Attention, rotary positions, and caches that are written in place."""

from __future__ import annotations

import numpy as np

from ...common.attention_core import (
    Heads,
    Mask,
    attention_scores,
    cap_scores,
    index_range,
    merge_heads,
    split_heads,
    weigh_values,
    widen,
)
from ...lazy_tensorflow import tf
from ...lowerings import ANY, BOOL, FLOATS, INDICES, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, computed, is_same_size
from ..math.casting import dtype_named


@lowers("Attention", since=23, T1=FLOATS, T2=FLOATS, U=FLOATS | BOOL)
def attention(op: OperatorContext) -> list[Value | None]:
    """Lower Attention: softmax(Q K^T scale + mask) V by heads, of 3 axes (heads in the last one) or 4.

    A row without any key is zero. Further outputs are the keys and values behind those of the past, and the scores at
    one of four places.
    """
    queries, keys, values = _inputs(op)
    past = _past(op)
    offset: Size = 0
    if past is not None:
        keys, values, offset = keys.appended_to(past[0]), values.appended_to(past[1]), past[0].length
    mask = _limit_keys(op, _mask(op, keys), queries, keys, offset)
    mode, cap = op.integer("qk_matmul_output_mode", 0), op.real("softcap", 0.0)
    raw = attention_scores(queries, keys, op.real("scale") if op.has("scale") else None)
    soft = cap_scores(raw, cap)
    biased = mask.add_bias(soft)
    weights = mask.softmax(biased, _precision(op))
    dtype = op.value(0).dtype
    answer = tf.cast(weigh_values(weights, queries, values), dtype)
    answer = merge_heads(answer, queries, values.width) if op.value(0).rank == 3 else answer
    sequence = [(axis, axis) for axis in range(op.value(0).rank - 1)]
    if mode not in range(4):
        op.refuse(f"its attribute qk_matmul_output_mode is {mode}, and only 0 to 3 are defined", fix="check the model")
    shown = None
    if op.wants(3):
        shown = (raw, soft, mask.with_minus_infinity(biased, op.kernels), weights)[mode]
        shown = computed(tf.cast(shown, dtype))
    present = [computed(tf.cast(heads.tensor, op.value(at).dtype)) for at, heads in ((1, keys), (2, values))]
    return [computed(answer).with_sizes_of(op.value(0), sequence), *present, shown]


def _precision(op: OperatorContext) -> str | None:
    """Return the dtype of the softmax; without doubles float32, which holds the result."""
    if not op.has("softmax_precision"):
        return None
    name = dtype_named(op, op.integer("softmax_precision"))
    if name not in FLOATS:
        op.refuse(f"its attribute softmax_precision is {name}", fix="check the model")
    return "float32" if name == "float64" and not op.kernels.doubles else name


def _inputs(op: OperatorContext) -> tuple[Heads, Heads, Heads]:
    """Return queries, keys and values by heads."""
    query_heads, key_heads = op.integer("q_num_heads", 0), op.integer("kv_num_heads", 0)
    if op.value(0).rank == 3 and not (query_heads and key_heads):
        op.refuse("its inputs have 3 axes and it does not say how many heads there are", fix="check the model")
    counts = (query_heads, key_heads, key_heads)
    queries, keys, values = (split_heads(op.value(at), count) for at, count in enumerate(counts))
    if isinstance(queries.heads, int) and isinstance(keys.heads, int) and queries.heads % max(keys.heads, 1):
        op.refuse(f"{queries.heads} heads of queries cannot share {keys.heads} of keys", fix="check the model")
    return queries, keys, values


def _past(op: OperatorContext) -> tuple[Heads, Heads] | None:
    key, value = op.optional(4), op.optional(5)
    if (key is None) != (value is None):
        op.refuse("only one of past_key and past_value is given", fix="check the model")
    if key is None or value is None:
        return None
    if op.optional(6) is not None:
        op.refuse("past_key and nonpad_kv_seqlen are both given", fix="check the model")
    return split_heads(key), split_heads(value)


def _mask(op: OperatorContext, keys: Heads) -> Mask:
    """Return the model's own mask: of bool the visible keys, of floats the numbers to add."""
    mask_value = op.optional(3)
    if mask_value is None:
        return Mask()
    bias_value, allowed_value = _split_mask(op, mask_value)
    mask = Mask(
        bias_value and bias_value.tensor(),
        allowed_value and allowed_value.tensor(),
        blind=mask_value.array is None or bias_value is not mask_value,
    )
    length = mask_value.size(mask_value.rank - 1) if mask_value.rank else keys.length
    if op.node.version < 24 or is_same_size(length, keys.length):
        return mask
    # As opset 24 words it, a mask may be of fewer keys than there are; its last axis is never broadcast.
    more = [[0, 0]] * (mask_value.rank - 1) + [[0, keys.length - length]]
    bias, allowed = (None if part is None else tf.pad(part, more) for part in (mask.bias, mask.allowed))
    return Mask(bias, allowed).limited_to(index_range(keys.length) < length, blind=True)


def _split_mask(op: OperatorContext, mask_value: Value) -> tuple[Value | None, Value | None]:
    """Split a mask into what is added and which keys are seen: a constant -inf survives no converter (Kernels)."""
    if mask_value.dtype == "bool":
        return None, mask_value
    if mask_value.array is None:
        return mask_value, None
    allowed = ~np.isneginf(np.asarray(mask_value.array, np.float32))
    if allowed.all():
        return mask_value, None
    return op.known(np.where(allowed, mask_value.array, mask_value.array.dtype.type(0))), op.known(allowed)


def _limit_keys(op: OperatorContext, mask: Mask, queries: Heads, keys: Heads, offset: Size) -> Mask:
    """Limit the keys by is_causal, the window and the number of valid keys. Query i stands at `offset` + i."""
    causal, valid = op.flag("is_causal"), op.optional(6)
    left, right = op.integer("left_window_size", -1), op.integer("right_window_size", -1)
    if min(left, right) < -1:
        op.refuse("a window size is below -1", fix="check the model")
    keys_at = index_range(keys.length)
    if valid is not None:
        count = tf.reshape(tf.cast(valid.tensor(), tf.int32), [-1, 1, 1, 1])
        mask = mask.limited_to(keys_at < count, blind=True)
        offset = count - queries.length
    queries_at = index_range(queries.length)[:, None] + offset
    if causal:
        mask = mask.limited_to(keys_at <= queries_at, blind=valid is not None)
    if left >= 0:
        mask = mask.limited_to(keys_at >= queries_at - left, blind=True)
    if right >= 0:
        mask = mask.limited_to(keys_at <= queries_at + right, blind=True)
    return mask


@lowers("RotaryEmbedding", since=23, T=FLOATS, M=INDICES)
def rotary_embedding(op: OperatorContext) -> Value:
    """Lower RotaryEmbedding: pairs turned by angles, (positions, half) by `position_ids` or (batch, sequence, half)."""
    value, positions = op.value(0), op.optional(3)
    caches = [op.tensor(at) for at in (1, 2)]
    if positions is not None:
        caches = [tf.gather(cache, positions.tensor()) for cache in caches]
    count = op.integer("num_heads", 0)
    if value.rank == 3 and not count:
        op.refuse("its input has 3 axes and it does not say how many heads there are", fix="check the model")
    heads = split_heads(value, count)
    cos, sin = (cache[:, None] for cache in caches)
    turned = rotate_pairs(
        heads, cos, sin, width=op.integer("rotary_embedding_dim", 0), interleaved=op.flag("interleaved")
    )
    return computed(merge_heads(turned, heads, heads.width) if value.rank == 3 else turned)


def rotate_pairs(heads: Heads, cos: TfTensor, sin: TfTensor, *, width: int, interleaved: bool) -> TfTensor:
    """Turn the first `width` features (0: all) of (batch, heads, sequence, features).

    `cos` and `sin` broadcast to (batch, heads, sequence, width / 2). Pairs lie next to each other if `interleaved`,
    else half of `width` apart.
    """
    turning, rest = (heads.tensor, None) if not width else (heads.tensor[..., :width], heads.tensor[..., width:])
    half = (width or heads.width) // 2
    pairs = [turning[..., ::2], turning[..., 1::2]] if interleaved else [turning[..., :half], turning[..., half:]]
    real = cos * pairs[0] - sin * pairs[1]
    imaginary = sin * pairs[0] + cos * pairs[1]
    if interleaved:
        turned = tf.reshape(tf.stack([real, imaginary], -1), tf.shape(turning))
        turned.set_shape(turning.shape)
    else:
        turned = tf.concat([real, imaginary], -1)
    return turned if rest is None else tf.concat([turned, rest], -1)


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
