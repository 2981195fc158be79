"""ONNX Runtime's attention, as on its CPU: masks add a large negative number, so a query without a key gets a mean."""

from __future__ import annotations

from dataclasses import replace

from ...common.attention_core import Heads, Mask, attention_scores, index_range, merge_heads, split_heads, weigh_values
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, INDICES, MICROSOFT, lowers
from ...operator_context import OperatorContext
from ...values import TfTensor, Value, computed, reshape
from ..math.quantization import EIGHT_BITS
from ..math.quantized import dequantize_sums, multiply_quantized, shape_for_columns, single_number
from .attention import rotate_pairs


@lowers("RotaryEmbedding", domain=MICROSOFT, T=FLOATS | INDICES)
def rotary_embedding(op: OperatorContext) -> Value:
    """Lower com.microsoft's RotaryEmbedding: a single position is the first one's, and the others follow."""
    if op.flag("is_packed_batching") or op.real("scale", 1.0) != 1:
        op.refuse("packed batches and a scale are not carried", fix="export without this fusion")
    value, positions = op.value(0), op.value(1)
    width, count = op.integer("rotary_embedding_dim", 0), op.integer("num_heads", 0)
    caches = [op.tensor(at) for at in (2, 3)]
    if value.rank == 3 and not count:
        half = op.value(2).shape[1]
        if half is None or value.shape[2] is None or width:
            op.refuse("it does not say how many heads there are", fix="give it the attribute num_heads")
        count = value.shape[2] // (2 * half)
    heads = split_heads(value, count)
    at = (
        positions.tensor()
        if positions.rank == 2
        else positions.tensor()[:, None] + tf.cast(index_range(heads.length), positions.dtype)
    )
    cos, sin = (tf.gather(cache, at)[:, None] for cache in caches)
    turned = rotate_pairs(heads, cos, sin, width=width, interleaved=op.flag("interleaved"))
    return computed(merge_heads(turned, heads, heads.width) if value.rank == 3 else turned).with_sizes_of(value)


@lowers("MultiHeadAttention", domain=MICROSOFT, T=FLOATS | INDICES)
def multi_head_attention(op: OperatorContext) -> list[Value | None]:
    """Lower MultiHeadAttention, of projections (batch, sequence, heads * features); keys, values may lie by heads."""
    query, key, value = op.value(0), op.optional(1), op.optional(2)
    if query.rank != 3 or key is None or value is None or key.rank == 5:
        op.refuse("queries, keys and values in one tensor are not carried", fix="export without this fusion")
    count = op.integer("num_heads")
    inputs = _add_biases(op, [query, key, value])
    queries, keys, values = (split_heads(projected, count) for projected in inputs)
    past = (op.optional(6), op.optional(7))
    return _attention(op, (queries, keys, values), past, mask=op.optional(4), added=op.optional(5))


def _add_biases(op: OperatorContext, inputs: list[Value]) -> list[Value]:
    """Add to each input its part of the bias, which lie behind each other; one of 4 axes was projected before."""
    bias = op.optional(3)
    if bias is None:
        return inputs
    widths = [value.shape[-1] for value in inputs]
    if any(value.rank != 3 for value in inputs) or None in widths:
        op.refuse("it adds a bias to keys whose width is not known", fix="export without this fusion")
    return [
        computed(value.tensor() + part) for value, part in zip(inputs, tf.split(bias.tensor(), widths), strict=True)
    ]


@lowers("Attention", domain=MICROSOFT, T=FLOATS | INDICES)
def attention(op: OperatorContext) -> list[Value | None]:
    """Lower com.microsoft's Attention: of an input with itself, of which one product gives queries, keys and values."""
    value, weights, bias = op.value(0), op.value(1), op.optional(2)
    projected = computed(tf.tensordot(value.tensor(), weights.tensor(), 1))
    projected = projected if bias is None else computed(projected.tensor() + bias.tensor())
    return _self_attention(op, projected, past=op.optional(4), mask=op.optional(3), added=op.optional(5))


@lowers("QAttention", domain=MICROSOFT, T=FLOATS | INDICES | EIGHT_BITS)
def quantized_attention(op: OperatorContext) -> list[Value | None]:
    """Lower QAttention: as Attention, with queries, keys and values by a product of quantised numbers."""
    value, weights = op.value(0), op.value(1)
    sums = multiply_quantized(op, value, op.optional(6), weights, op.optional(7))
    projected = dequantize_sums(
        sums, single_number(op, op.value(3)), shape_for_columns(op, op.value(4), weights), op.value(2)
    )
    return _self_attention(op, projected, past=op.optional(8), mask=op.optional(5), added=None)


def _self_attention(
    op: OperatorContext, projected: Value, *, past: Value | None, mask: Value | None, added: Value | None
) -> list[Value | None]:
    """Attend with queries, keys and values that stand beside each other along the last axis."""
    if op.flag("do_rotary") or op.flag("past_present_share_buffer"):
        op.refuse("rotary positions and a shared buffer are not carried", fix="export without this fusion")
    op.ignore("rotary_embedding_dim", because="nothing is turned")
    width, value = projected.shape[-1], op.value(0)
    if width is None:
        op.refuse("the width of its weights is not known", fix="fix it when exporting")
    widths = op.ints("qkv_hidden_sizes", (width // 3,) * 3)
    parts = [computed(part).with_sizes_of(value, [(0, 0), (1, 1)]) for part in tf.split(projected.tensor(), widths, -1)]
    queries, keys, values = (split_heads(part, op.integer("num_heads")) for part in parts)
    halves = (None, None) if past is None else (computed(past.tensor()[0]), computed(past.tensor()[1]))
    answer, key, values_kept = _attention(op, (queries, keys, values), halves, mask=mask, added=added)[:3]
    present = computed(tf.stack([key.tensor(), values_kept.tensor()])) if key and values_kept and op.wants(1) else None
    return [answer, present]


def _attention(
    op: OperatorContext,
    heads: tuple[Heads, Heads, Heads],
    past: tuple[Value | None, Value | None],
    *,
    mask: Value | None,
    added: Value | None,
) -> list[Value | None]:
    """Return the result, the keys and the values with those of the past, and the weights."""
    queries, keys, values = heads
    dtype, offset = queries.tensor.dtype, 0
    past_key, past_value = past
    if past_key is not None and past_value is not None:
        before = split_heads(past_key)
        keys, values, offset = keys.appended_to(before), values.appended_to(split_heads(past_value)), before.length
    elif past_key is not past_value:
        op.refuse("only one of past_key and past_value is given", fix="check the model")
    biases = Mask(None if added is None else added.tensor())
    if mask is not None:
        biases = replace(biases, bias=_filter_keys(op, mask, keys, biases.bias))
    op.ignore("mask_filter_value", because="it speaks of a mask, and where there is one it was read")
    if op.flag("unidirectional"):
        biases = biases.limited_to(
            index_range(keys.length) <= index_range(queries.length)[:, None] + offset, blind=False
        )
    scale = op.real("scale", 0.0)
    weights = biases.softmax(biases.add_bias(attention_scores(queries, keys, scale or None)))
    answer = merge_heads(tf.cast(weigh_values(weights, queries, values), dtype), queries, values.width)
    present = [computed(tf.cast(heads_kept.tensor, dtype)) for heads_kept in (keys, values)]
    return [
        computed(answer).with_sizes_of(op.value(0), [(0, 0), (1, 1)]),
        *present,
        computed(tf.cast(weights, dtype)),
    ]


def _filter_keys(op: OperatorContext, mask: Value, keys: Heads, bias: TfTensor | None) -> TfTensor:
    """Return what is added to the scores: a mask by (batch, keys) or (batch, queries, keys), or (batch,) of lengths."""
    low = op.real("mask_filter_value", -10000.0)
    if mask.rank == 1:
        if not isinstance(keys.batch, int) or mask.shape[0] != keys.batch:
            reason = "its mask of one axis may hold starts and ends, which are not carried"
            op.refuse(reason, fix="give it a mask by keys")
        visible = index_range(keys.length) < tf.reshape(tf.cast(mask.tensor(), tf.int32), [-1, 1, 1, 1])
    elif mask.rank in (2, 3):
        batch, *rows, length = (mask.size(axis) for axis in range(mask.rank))
        visible = reshape(mask.tensor(), [batch, 1, *(rows or [1]), length]) > 0
    else:
        op.refuse(f"its mask has {mask.rank} axes", fix="export without this fusion")
    dtype = keys.wide.dtype
    filtered = tf.where(visible, tf.zeros([], dtype), tf.cast(low, dtype))
    return filtered if bias is None else filtered + tf.cast(bias, dtype)
