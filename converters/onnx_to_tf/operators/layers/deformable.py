"""Deformable convolution: each element of the kernel is read where the model says, between the input's elements."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product as every
from math import prod

import numpy as np

from ....onnx_graph.semantics.window_attributes import kernel_sizes
from ...common.windows import Window, read_window
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, lowers
from ...operator_context import OperatorContext
from ...values import Layout, Size, TfTensor, Value, add_bias, computed, product, reshape
from .convolution import arrange_weight, channel_sizes


@dataclass(frozen=True, slots=True)
class _DeformedSizes:
    """The sizes that the inputs are divided into."""

    batch: Size
    groups: int  # of offsets
    width: int  # channels in each of them
    elements: int  # of the kernel
    out: tuple[Size, ...]

    @property
    def places(self) -> Size:
        """The number of places of the output."""
        return product(self.out)


@lowers("DeformConv", since=19, T=FLOATS)
def deform_conv(op: OperatorContext) -> Value:
    """Lower DeformConv: (N, C, ...) read at offsets (N, groups * kernel * axes, ...), each times its mask.

    That is convolved with (M, C / group, ...), plus a bias, to (N, M, ...). Outside the input is zero, with which the
    elements next to the edge are interpolated.
    """
    value, kernel, offset = op.value(0), op.value(1), op.value(2)
    window = read_window(op, value, kernel_sizes(op, kernel))
    filters, width = channel_sizes(op, kernel)
    channels, groups = width * op.integer("group", 1), op.integer("offset_group", 1)
    out = tuple(offset.size(axis) for axis in range(2, offset.rank))
    sizes = _DeformedSizes(value.size(0), groups, channels // groups, prod(window.kernel), out)
    seen = _interpolate(value, _coordinates(offset, window, sizes), window, sizes)
    mask = op.optional(4)
    if mask is not None:
        seen = seen * reshape(mask.tensor(), [sizes.batch, groups, sizes.elements, sizes.places, 1])
    # A 1x1 convolution, in which the elements of the kernel are channels: those of one channel lie side by side.
    columns = tf.transpose(seen, (0, 3, 1, 4, 2))
    columns = reshape(columns, [sizes.batch, sizes.places, 1, channels * sizes.elements])
    weight = arrange_weight(op, kernel, (*range(1, 2 + window.rank), 0), (1, 1, width * sizes.elements, filters))
    convolved = reshape(tf.nn.conv2d(columns, weight, 1, "VALID"), [sizes.batch, *sizes.out, filters])
    return computed(add_bias(convolved, op.optional(3)), Layout.CHANNELS_LAST)


def _coordinates(offset: Value, window: Window, sizes: _DeformedSizes) -> list[TfTensor]:
    """Return where each element of the kernel is read along each spatial axis: (N, groups, elements, places)."""
    shape = [sizes.batch, sizes.groups, sizes.elements, window.rank, sizes.places]
    offsets = reshape(offset.tensor(), shape)
    coordinates = []
    for at in range(window.rank):
        begin = tf.range(sizes.out[at]) * window.strides[at] - window.pads[at][0]
        zeros = tf.zeros([1 if axis == at else size for axis, size in enumerate(sizes.out)], tf.int32)
        begin = reshape(begin, [-1 if axis == at else 1 for axis in range(window.rank)]) + zeros
        inside = np.indices(window.kernel)[at].reshape(-1, 1).astype(np.int32) * window.dilations[at]
        regular = reshape(begin, [1, -1]) + inside
        coordinates.append(offsets[:, :, :, at] + tf.cast(regular, offsets.dtype))
    return coordinates


def _interpolate(value: Value, coordinates: list[TfTensor], window: Window, sizes: _DeformedSizes) -> TfTensor:
    """Interpolate linearly along each axis: (N, groups, elements, places, channels of a group)."""
    table = reshape(value.tensor(), [sizes.batch, sizes.groups, sizes.width, product(window.sizes)])
    table = tf.transpose(table, (0, 1, 3, 2))
    floors = [tf.floor(coordinate) for coordinate in coordinates]
    shares = [coordinate - low for coordinate, low in zip(coordinates, floors, strict=True)]
    total = None
    for corner in every((0, 1), repeat=window.rank):
        index: TfTensor = 0
        share: TfTensor = 1.0
        for at, high in enumerate(corner):
            place, size = tf.cast(floors[at], tf.int32) + high, window.sizes[at]
            near = shares[at] if high else 1 - shares[at]
            share = share * tf.where((place >= 0) & (place < size), near, tf.zeros_like(near))
            # In the other order a converter fuses it into a ReLU6, which takes no integers, where a size is 7.
            index = index * size + tf.minimum(tf.maximum(place, 0), size - 1)
        flat = reshape(index, [sizes.batch, sizes.groups, sizes.elements * sizes.places])
        read = tf.gather(table, flat, batch_dims=2)
        read = reshape(read, [sizes.batch, sizes.groups, sizes.elements, sizes.places, sizes.width])
        total = read * share[..., None] if total is None else total + read * share[..., None]
    return total
