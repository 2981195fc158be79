"""Pools and convolutions backwards: values put where they came from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from ....onnx_graph.semantics.window_attributes import pads_by_axis
from ...common.padding_modes import pad
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, INDICES, NUMBERS, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, computed, pack_sizes, product, reshape


@lowers("MaxUnpool", since=9, T1=FLOATS, T2=INDICES)
def max_unpool(op: OperatorContext) -> Value:
    """Lower MaxUnpool: zeros, and each value where MaxPool found it.

    That is its place in the flat result that kernel, strides and pads describe. A larger output_shape adds zeros after
    that, as the specification's own test has it.
    """
    value, places = op.value(0), op.value(1)
    kernel = op.ints("kernel_shape")
    rank = len(kernel)
    strides, pads = op.ints("strides", [1] * rank), pads_by_axis(op, rank)
    if op.optional(2) is not None and any(map(any, pads)):
        op.refuse("it has both pads and output_shape", fix="leave one of them out")
    sizes = [(value.size(2 + at) - 1) * strides[at] - sum(pads[at]) + kernel[at] for at in range(rank)]
    shape = [value.size(0), value.size(1), *sizes]
    flat = _put_values(op, value.tensor(), places.tensor(), product(shape))
    result = reshape(flat, shape)
    if op.optional(2) is not None:
        wanted = op.sizes(2, "output_shape")
        result = pad(result, [(0, want - size) for want, size in zip(wanted, shape, strict=True)])
    return computed(result)


def _put_values(op: OperatorContext, values: TfTensor, places: TfTensor, size: Size) -> TfTensor:
    """Return a vector of zeros with values at places; where two windows found one element, it is there once."""
    index, flat, rows = tf.reshape(tf.cast(places, tf.int32), [-1]), tf.reshape(values, [-1]), pack_sizes([size])[0]
    total, times = (op.kernels.row_sums(numbers, index, rows) for numbers in (flat, tf.ones_like(flat)))
    return total / tf.maximum(times, tf.ones([], flat.dtype))


@lowers("Col2Im", since=18, T=NUMBERS)
def col2im(op: OperatorContext) -> Value:
    """Lower Col2Im: blocks (N, C * elements, blocks) laid over the image (N, C, ...), and added where they overlap."""
    value, image, block = op.value(0), op.sizes(1, "image_shape"), op.sizes(2, "block_shape")
    rank = len(image)
    strides, dilations = op.ints("strides", [1] * rank), op.ints("dilations", [1] * rank)
    pads = pads_by_axis(op, rank)
    padded_sizes = [size + sum(pair) for size, pair in zip(image, pads, strict=True)]
    index = _places(padded_sizes, block, strides, dilations)
    batch, columns = value.size(0), product(block)
    channels = value.size(1) // columns
    parts = reshape(value.tensor(), [product([batch, channels]), -1])
    flat = op.kernels.row_sums(tf.transpose(parts), tf.reshape(index, [-1]), pack_sizes([product(padded_sizes)])[0])
    image_padded = reshape(tf.transpose(flat), [batch, channels, *padded_sizes])
    return computed(pad(image_padded, [(0, 0), (0, 0), *((-low, -high) for low, high in pads)]))


def _places(
    padded_sizes: Sequence[Size], block: Sequence[Size], strides: Sequence[int], dilations: Sequence[int]
) -> TfTensor:
    """Return where each element of each block lies in the flat, padded image: elements first, then blocks. int32."""
    rank = len(padded_sizes)
    known = all(isinstance(size, int) for size in (*padded_sizes, *block))
    with tf.init_scope() if known else nullcontext():
        answer = tf.zeros([1] * 2 * rank, tf.int32)
        for at in range(rank):
            count = (padded_sizes[at] - dilations[at] * (block[at] - 1) - 1) // strides[at] + 1
            inside = tf.reshape(tf.range(block[at]) * dilations[at], _along(at, 2 * rank))
            begin = tf.reshape(tf.range(count) * strides[at], _along(rank + at, 2 * rank))
            answer = answer + (inside + begin) * product(padded_sizes[at + 1 :])
    return tf.constant(answer.numpy()) if known else answer


def _along(axis: int, rank: int) -> list[int]:
    return [-1 if at == axis else 1 for at in range(rank)]
