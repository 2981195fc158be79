"""Convolutions, also transposed and deformable, with channels last, in two spatial axes, which all kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as every
from math import prod
from typing import Any

import numpy as np

from ....onnx_graph.semantics.window_attributes import kernel_sizes, transposed_window
from ...common.padding_modes import insert_zeros, pad, pad_outside
from ...common.windows import Window, kernel_taps, read_window, window_over
from ...kernels.tflite_converter_forms import with_channels
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, lowers
from ...operator_context import OperatorContext
from ...values import Layout, Size, TfTensor, Value, add_bias, computed, pack_sizes, product, reshape


@lowers("Conv", since=1, T=FLOATS)
def conv(op: OperatorContext) -> Value:
    """Lower Conv: (N, C, ...) * (M, C / group, ...) + bias -> (N, M, ...)."""
    value, kernel = op.value(0), op.value(1)
    group = op.integer("group", 1)
    window = read_window(op, value, kernel_sizes(op, kernel))
    if value.shape[1] is not None and kernel.shape[1] is not None and value.shape[1] != kernel.shape[1] * group:
        op.refuse(f"{value.shape[1]} channels do not fit a weight of {kernel.shape[1]} and {group} groups")
    convolved = convolve(op, value.tensor(Layout.CHANNELS_LAST), kernel, window, group)
    biased = add_bias(convolved, op.optional(2), fuse=group == 1 or op.kernels.fuses_grouped_bias)
    return computed(biased, Layout.CHANNELS_LAST)


def channel_sizes(op: OperatorContext, kernel: Value) -> tuple[int, int]:
    """Return the first two sizes of the weight."""
    first, second = kernel.shape[:2]
    if first is None or second is None:
        op.refuse("its number of channels is known only when the model runs", fix="fix it when exporting")
    return first, second


def arrange_weight(op: OperatorContext, kernel: Value, order: Sequence[int], shape: Sequence[int] = ()) -> TfTensor:
    """Return a weight in the order of axes that TensorFlow wants; a known one is arranged now, and a variable."""
    if kernel.array is not None:
        return op.weights.hold(kernel.array, order, shape)
    moved = tf.transpose(kernel.tensor(), order)
    return tf.reshape(moved, shape) if shape else moved


def convolve(op: OperatorContext, tensor: TfTensor, kernel: Value, window: Window, group: int) -> TfTensor:
    """Convolve (N, ..., C), channels last, with (M, C / group, ...) to (N, ..., M)."""
    _, width = channel_sizes(op, kernel)
    tensor = with_channels(tensor, width * group)
    if window.rank == 1:
        convolved = _conv2d(op, tf.expand_dims(tensor, 1), kernel, window.with_leading_axis(), group)
        return tf.squeeze(convolved, 1)
    if window.rank == 2:
        return _conv2d(op, tensor, kernel, window, group)
    if group == 1 and not window.dilated and op.kernels.three_axes:
        if not window.same:  # by PadV2: of two Pads before a Conv3D TensorFlow 2.21's graph optimiser loses one
            tensor = pad_outside(tensor, window.widths, tf.zeros([], tensor.dtype))
        padding = "SAME" if window.same else "VALID"
        return tf.nn.conv3d(tensor, arrange_weight(op, kernel, (2, 3, 4, 1, 0)), (1, *window.strides, 1), padding)
    return _conv_of_planes(op, tensor, kernel, window, group)


def _conv2d(op: OperatorContext, tensor: TfTensor, kernel: Value, window: Window, group: int) -> TfTensor:
    """Convolve in two spatial axes; a weight that has one of them gets an axis of size 1 before it."""
    (filters, _), channels = channel_sizes(op, kernel), tensor.shape[-1]
    order = (2, 1, 0) if kernel.rank == 3 else (2, 3, 1, 0)
    depthwise = group == channels and group > 1 and len(set(window.strides)) == 1
    if depthwise and (not window.dilated or max(window.strides) == 1):
        # (M, 1, h, w), where M = C * multiplier and C varies slowest -> (h, w, C, multiplier)
        weight = arrange_weight(op, kernel, order, (*window.kernel, channels, filters // channels))
        if not window.same:  # TensorFlow 2.21 fuses explicit padding with a bias, and aborts
            tensor = pad_outside(tensor, window.widths)
        padding = "SAME" if window.same else "VALID"
        return op.kernels.depthwise_conv2d(tensor, weight, window.strides, padding, window.dilations)
    weight = arrange_weight(op, kernel, order, (*window.kernel, channels // group, filters))
    return _conv2d_of_groups(tensor, weight, window)


def _conv2d_of_groups(tensor: TfTensor, weight: TfTensor, window: Window) -> TfTensor:
    """Convolve in as many groups as the weight's channels fit the tensor's; pads that are numbers are the kernel's."""
    padding: Any = "SAME" if window.same else [list(pair) for pair in window.widths]
    if not window.same and not window.fixed:
        tensor, padding = pad_outside(tensor, window.widths), "VALID"
    return tf.nn.conv2d(tensor, weight, window.strides, padding, dilations=window.dilations)


def _conv_of_planes(op: OperatorContext, tensor: TfTensor, kernel: Value, window: Window, group: int) -> TfTensor:
    """Convolve in three axes by two: what is seen along the depth becomes channels, slower ones, by group."""
    depth, plane = window.along(slice(1)), window.along(slice(1, None))
    filters, width = channel_sizes(op, kernel)
    tensor = pad_outside(tensor, [(0, 0), *depth.pads, (0, 0), (0, 0), (0, 0)])
    seen = kernel_taps(tensor, 1, depth, 0)
    places = computed(seen[0])
    batch, deep, high, wide = (places.size(axis) for axis in range(4))
    channels = width * group * window.kernel[0]
    planes = tf.stack([reshape(tap, [product([batch, deep]), high, wide, width * group]) for tap in seen], -1)
    planes = reshape(planes, [product([batch, deep]), high, wide, channels])
    weight = arrange_weight(op, kernel, (3, 4, 1, 2, 0), (*plane.kernel, channels // group, filters))
    convolved = computed(_conv2d_of_groups(planes, weight, plane))
    return reshape(convolved.tensor(), [batch, deep, convolved.size(1), convolved.size(2), filters])


@lowers("ConvTranspose", since=1, T=FLOATS)
def conv_transpose(op: OperatorContext) -> Value:
    """Lower ConvTranspose: (N, C, ...) to (N, M, ...), an axis stride (size - 1) + extent - pads wide, plus bias."""
    value, kernel, group = op.value(0), op.value(1), op.integer("group", 1)
    window = _window(op, value, kernel)
    tensor = with_channels(value.tensor(Layout.CHANNELS_LAST), channel_sizes(op, kernel)[0])
    if group > 1 or window.dilated or (window.rank == 3 and not op.kernels.three_axes):
        convolved = _convolve_spread(op, tensor, kernel, window, group)
    else:
        convolved = _convolve_transposed(op, value, tensor, kernel, window)
    biased = add_bias(convolved, op.optional(2), fuse=group == 1 or op.kernels.fuses_grouped_bias)
    return computed(biased, Layout.CHANNELS_LAST)


def _window(op: OperatorContext, value: Value, kernel: Value) -> Window:
    """Return the window whose pads are cut from the full result; output_padding has been taken from those after."""
    attributes = transposed_window(op, kernel_sizes(op, kernel))
    window = window_over(attributes.window, value)
    rows = zip(attributes.cuts(window.sizes), attributes.output_padding, strict=True)
    return replace(window, pads=tuple((low, high - more) for (low, high), more in rows))


def _cut_pads(full: TfTensor, window: Window) -> TfTensor:
    return pad(full, [(0, 0), *((-low, -high) for low, high in window.pads), (0, 0)])


def _kernel_result(window: Window) -> tuple[str, list[Size]]:
    """Return SAME, where just its pads are cut and the result has size * stride places; else all of it; and sizes."""
    rows = list(zip(window.sizes, window.strides, window.extents, strict=True))
    totals = [extent - stride for _, stride, extent in rows]
    if window.fixed and min(totals) >= 0 and list(window.pads) == [(t // 2, t - t // 2) for t in totals]:
        return "SAME", [size * stride for size, stride, _ in rows]
    return "VALID", [(size - 1) * stride + extent for size, stride, extent in rows]


def _convolve_transposed(
    op: OperatorContext, value: Value, tensor: TfTensor, kernel: Value, window: Window
) -> TfTensor:
    rank = window.rank
    weight = arrange_weight(op, kernel, (*range(2, 2 + rank), 1, 0))
    padding, sizes = _kernel_result(window)
    strides, shape = list(window.strides), [value.size(0), *sizes, kernel.size(1)]
    if rank == 1:
        tensor, weight = tf.expand_dims(tensor, 1), tf.expand_dims(weight, 0)
        strides, shape = [1, *strides], [shape[0], 1, *shape[1:]]
    function = tf.nn.conv3d_transpose if rank == 3 else tf.nn.conv2d_transpose
    result = function(tensor, weight, pack_sizes(shape), [1, *strides, 1], padding)
    result = tf.squeeze(result, 1) if rank == 1 else result
    return result if padding == "SAME" else _cut_pads(result, window)


def _convolve_spread(op: OperatorContext, tensor: TfTensor, kernel: Value, window: Window, group: int) -> TfTensor:
    """Convolve over the input with zeros between elements: for groups, dilations, and axes the dialect lacks."""
    for axis, stride in enumerate(window.strides, 1):
        tensor = insert_zeros(tensor, axis, stride)
    forward = Window(
        kernel=window.kernel,
        strides=(1,) * window.rank,
        dilations=window.dilations,
        pads=tuple((extent - 1, extent - 1) for extent in window.extents),
        sizes=tuple((size - 1) * stride + 1 for size, stride in zip(window.sizes, window.strides, strict=True)),
    )
    return _cut_pads(convolve(op, tensor, _reverse_kernel(op, kernel, group), forward, group), window)


def _reverse_kernel(op: OperatorContext, kernel: Value, group: int) -> Value:
    """Convert (C, M / group, ...) to (M, C / group, ...), and along the spatial axes the last first."""
    channels, width = channel_sizes(op, kernel)
    spatial = kernel_sizes(op, kernel)
    split, joined = (group, channels // group, width, *spatial), (group * width, channels // group, *spatial)
    axes = tuple(range(2, kernel.rank))
    if kernel.array is not None:
        return op.known(np.flip(kernel.array.reshape(split).swapaxes(1, 2).reshape(joined), axes))
    order = (0, 2, 1, *(axis + 1 for axis in axes))
    return computed(tf.reverse(tf.reshape(tf.transpose(tf.reshape(kernel.tensor(), split), order), joined), axes))


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
