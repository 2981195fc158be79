"""Parts that the attention operators share: heads, scores, masks, and softmax over the visible keys.

Everything is (batch, heads, queries, keys or features). Numbers of 16 bits are widened to float32 and rounded once, at
the end. Keys and values of grouped queries are not repeated: the queries of a group stand below each other instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..kernels.dialects import Kernels
from ..lazy_tensorflow import tf
from ..values import Size, TfTensor, Value, is_same_size, reshape


@dataclass(frozen=True, eq=False)
class Heads:
    """A tensor (batch, heads, sequence, features) with its sizes, which are known or tensors."""

    tensor: TfTensor
    batch: Size
    heads: Size
    length: Size
    width: Size

    @property
    def wide(self) -> TfTensor:
        """The tensor in float32 where it has 16 bits."""
        return widen(self.tensor)

    def appended_to(self, past: Heads) -> Heads:
        """Append to the past of the sequence, in float32 where it has 16 bits."""
        return replace(self, tensor=tf.concat([past.wide, self.wide], 2), length=past.length + self.length)


def split_heads(value: Value, count: int = 0) -> Heads:
    """Split a value by heads: (batch, heads, sequence, features), or of rank 3 with `count` heads in its last axis."""
    if value.rank == 4:
        return Heads(value.tensor(), *(value.size(axis) for axis in range(4)))
    batch, length, width = (value.size(axis) for axis in range(3))
    split = reshape(value.tensor(), [batch, length, count, width // count])
    return Heads(tf.transpose(split, (0, 2, 1, 3)), batch, count, length, width // count)


def merge_heads(tensor: TfTensor, like: Heads, width: Size) -> TfTensor:
    """Merge (batch, heads, sequence, `width`) into (batch, sequence, heads * width)."""
    return reshape(tf.transpose(tensor, (0, 2, 1, 3)), [like.batch, like.length, like.heads * width])


def widen(tensor: TfTensor) -> TfTensor:
    """Cast to float32 where the tensor has 16 bits."""
    return tf.cast(tensor, tf.float32) if tensor.dtype.size < 4 else tensor


def _group_queries(tensor: TfTensor, queries: Heads, keys: Heads, width: Size) -> TfTensor:
    """Stack the heads that share a key's head as further queries of it: (batch, heads, queries, `width`)."""
    if is_same_size(queries.heads, keys.heads):
        return tensor
    shared = queries.heads // keys.heads
    return reshape(tensor, [queries.batch, keys.heads, shared * queries.length, width])


def attention_scores(queries: Heads, keys: Heads, scale: float | None) -> TfTensor:
    """Return the products with each key, times `scale` or 1 / sqrt(features): (batch, heads, queries, keys)."""
    scaled = queries.wide * (_inverse_root(queries) if scale is None else tf.cast(scale, queries.wide.dtype))
    product = tf.matmul(_group_queries(scaled, queries, keys, queries.width), keys.wide, transpose_b=True)
    if is_same_size(queries.heads, keys.heads):
        return product
    return reshape(product, [queries.batch, queries.heads, queries.length, keys.length])


def _inverse_root(queries: Heads) -> TfTensor:
    if isinstance(queries.width, int):
        return tf.cast(1 / np.sqrt(max(queries.width, 1)), queries.wide.dtype)
    return tf.math.rsqrt(tf.cast(queries.width, queries.wide.dtype))


def weigh_values(weights: TfTensor, queries: Heads, values: Heads) -> TfTensor:
    """Return the values weighted by (batch, heads, queries, keys): (batch, heads, queries, features of the values)."""
    sums = tf.matmul(_group_queries(weights, queries, values, values.length), values.wide)
    if is_same_size(queries.heads, values.heads):
        return sums
    return reshape(sums, [queries.batch, queries.heads, queries.length, values.width])


def cap_scores(tensor: TfTensor, cap: float) -> TfTensor:
    """Return cap tanh(x / cap), or x where `cap` is 0."""
    if cap <= 0:
        return tensor
    number = tf.cast(cap, tensor.dtype)
    return number * tf.tanh(tensor / number)


@dataclass(frozen=True, eq=False)
class Mask:
    """A mask over the scores: what is added to them, and which keys each query may see; None where nothing says so.

    Both parts broadcast to (batch, heads, queries, keys). `blind`: whether a query may see no key at all.
    """

    bias: TfTensor | None = None
    allowed: TfTensor | None = None
    blind: bool = False

    def limited_to(self, allowed: TfTensor, *, blind: bool) -> Mask:
        """Return the mask further limited to these keys."""
        limited = allowed if self.allowed is None else tf.logical_and(self.allowed, allowed)
        return replace(self, allowed=limited, blind=self.blind or blind)

    def add_bias(self, tensor: TfTensor) -> TfTensor:
        """Add the mask's bias to the scores."""
        return tensor if self.bias is None else tensor + tf.cast(self.bias, tensor.dtype)

    def with_lowest(self, biased: TfTensor) -> TfTensor:
        """Return biased scores, with the lowest number where a key may not be seen."""
        return biased if self.allowed is None else tf.where(self.allowed, biased, biased.dtype.min)

    def with_minus_infinity(self, biased: TfTensor, kernels: Kernels) -> TfTensor:
        """Return biased scores, with minus infinity where a key may not be seen."""
        return biased if self.allowed is None else tf.where(self.allowed, biased, kernels.minus_infinity(biased))

    def softmax(self, biased: TfTensor, precision: str | None = None) -> TfTensor:
        """Return the softmax over the keys, computed in the dtype `precision`; zeros where a query sees no key."""
        masked = self.with_lowest(biased)
        exact = masked if precision is None else widen(tf.cast(masked, precision))
        soft = tf.nn.softmax(exact, -1)
        soft = soft if precision is None else tf.cast(tf.cast(soft, precision), biased.dtype)
        return tf.where(self._sees_any_key(), soft, tf.zeros_like(soft)) if self.blind else soft

    def _sees_any_key(self) -> TfTensor:
        """Return whether a query sees any key: (batch, heads, queries, 1), or a tensor that broadcasts to it."""
        bias = None if self.bias is None else widen(self.bias)
        finite = None if bias is None else bias >= bias.dtype.min  # minus infinity is below
        visible = [part for part in (self.allowed, finite) if part is not None]
        combined = visible[0] if len(visible) == 1 else tf.logical_and(*visible)
        return tf.reduce_any(combined, -1, keepdims=True)


def index_range(length: Size) -> TfTensor:
    """Return 0 .. length - 1, int32; a constant where the length is known."""
    return tf.constant(np.arange(length), tf.int32) if isinstance(length, int) else tf.range(length)
