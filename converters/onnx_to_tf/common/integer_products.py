"""Exact sums of products of 8-bit integers, in float32.

float32 holds every integer of 24 bits, and runtimes have their fastest kernels for it. A sum that could need more bits
is computed in parts that cannot, along the axis that is summed over. The parts are added as int32, which wraps around
where the specification allows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import ceil, prod

import numpy as np

from ....models.signature import Array
from ..lazy_tensorflow import tf
from ..operator_context import OperatorContext
from ..operators.layers.convolution import channel_sizes, convolve
from ..operators.math.linear import matmul
from ..values import Layout, TfTensor, Value, broadcast, computed, known, map_elements
from .windows import Window

_MOST = 1 << 24  # every integer up to here is a float32
_RANGES = {"int8": (-128, 127), "uint8": (0, 255)}


@dataclass(frozen=True)
class Integers:
    """Integers as float32, none of a magnitude above `most`."""

    value: Value
    most: int


def subtract_zero_point(op: OperatorContext, value: Value, zero: Value | None) -> Integers:
    """Subtract a zero point that broadcasts to 8-bit numbers."""
    if value.dtype not in _RANGES:
        op.refuse(f"it multiplies {value.dtype}, and only int8 and uint8 can be carried")
    low, high = _RANGES[value.dtype]
    if zero is None:
        zero = known(np.zeros((), value.dtype), value.weights)
    if zero.array is None:
        return Integers(_subtract(value, zero), high - low)
    zeros = zero.array.astype(np.int32)
    if value.array is None:
        least, most = int(zeros.min(initial=0)), int(zeros.max(initial=0))
        floats = _subtract(value, zero) if zeros.any() else map_elements(value, lambda t: tf.cast(t, tf.float32))
        return Integers(floats, max(high - least, most - low))
    array = (value.array - zeros).astype(np.float32)
    return Integers(known(array, value.weights), int(np.abs(array).max(initial=0)))


def _subtract(value: Value, zero: Value) -> Value:
    return broadcast(lambda a, b: tf.cast(a, tf.float32) - tf.cast(b, tf.float32), value, zero)


def multiply_matrices(op: OperatorContext, left: Integers, right: Integers) -> TfTensor:
    """Multiply as numpy.matmul does, as int32."""
    a, b = left.value, right.value
    axis = max(b.rank - 2, 0)  # of b; of a it is the last
    size = b.shape[axis] if b.shape[axis] is not None else a.shape[-1]
    if size is None:  # the sums have no known bound
        factors = [computed(tf.cast(factor.tensor(), tf.int32)) for factor in (a, b)]
        return matmul(op.with_inputs(*factors)).tensor()
    magnitudes = np.full((size, 1), float(right.most))
    if b.array is not None:
        magnitudes = np.moveaxis(np.abs(b.array), axis, 0).reshape(size, -1).astype(np.float64)
    products = [
        _round_to_integers(
            matmul(op.with_inputs(_slice_value(a, a.rank - 1, part), _slice_value(b, axis, part))).tensor()
        )
        for part in _exact_parts(op, magnitudes, left.most)
    ]
    return reduce(tf.add, products)


def convolve_integers(op: OperatorContext, value: Integers, kernel: Integers, window: Window, group: int) -> TfTensor:
    """Convolve (N, C, ...) with (M, C / group, ...) to int32, channels last; pads are 0, as the zero point is."""
    filters, width = channel_sizes(op, kernel.value)
    tensor = value.value.tensor(Layout.CHANNELS_LAST)
    magnitudes = np.full((width, 1), float(kernel.most * prod(window.kernel)))
    if kernel.value.array is not None:
        magnitudes = np.abs(kernel.value.array).sum(tuple(range(2, kernel.value.rank)), np.float64).T
    parts = _exact_parts(op, magnitudes, value.most)
    if len(parts) == 1:
        return _round_to_integers(convolve(op, tensor, kernel.value, window, group))
    filters_per_group = filters // group
    groups = []
    for at in range(group):
        weight = _slice_value(kernel.value, 0, slice(at * filters_per_group, (at + 1) * filters_per_group))
        channels = tensor[..., at * width : (at + 1) * width]
        sums = [
            _round_to_integers(convolve(op, channels[..., part], _slice_value(weight, 1, part), window, 1))
            for part in parts
        ]
        groups.append(reduce(tf.add, sums))
    return tf.concat(groups, -1)


def _round_to_integers(tensor: TfTensor) -> TfTensor:
    """Return the integers that floats stand for; a kernel that computes by a transform may be off by a little."""
    return tf.cast(tf.round(tensor), tf.int32)


def _exact_parts(op: OperatorContext, magnitudes: Array, most: int) -> list[slice]:
    """Split the summed axis into as few equal parts as keep every sum exact.

    `magnitudes` (places along the axis, sums) is how much each place adds to a sum for each unit of the other factor,
    which is `most` at most.
    """
    size = len(magnitudes)
    if magnitudes.max(initial=0) * most > _MOST:
        op.refuse("a single one of its channels can add up to more than 24 bits", fix="use smaller kernels")
    count = max(1, ceil(magnitudes.sum(0).max(initial=0) * most / _MOST))
    while True:
        edges = [at * size // count for at in range(count + 1)]
        if count >= size or np.add.reduceat(magnitudes, edges[:-1], axis=0).max() * most <= _MOST:
            return [slice(*pair) for pair in pairwise(edges)]
        count += 1


def _slice_value(value: Value, axis: int, part: slice) -> Value:
    """Return a part of a value along an axis; the value itself where that is all of it."""
    if (part.start, part.stop) == (0, value.shape[axis]):
        return value
    cut = (slice(None),) * axis + (part,)
    return computed(value.tensor()[cut]) if value.array is None else known(value.array[cut], value.weights)
