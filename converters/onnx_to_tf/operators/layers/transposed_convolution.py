"""Transposed convolutions: the full result first, which the pads cut and negative pads extend."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ....onnx_graph.semantics.window_attributes import kernel_sizes, transposed_window
from ...common.padding_modes import insert_zeros, pad
from ...common.windows import Window, window_over
from ...kernels.converter_safe import with_channels
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, lowers
from ...operator_context import OperatorContext
from ...values import Layout, Size, TfTensor, Value, add_bias, computed, pack_sizes
from .convolution import arrange_weight, channel_sizes, convolve


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
    return computed(add_bias(convolved, op.optional(2)), Layout.CHANNELS_LAST)


def _window(op: OperatorContext, value: Value, kernel: Value) -> Window:
    """Return the window whose pads are cut from the full result; output_padding has been taken from those after."""
    attributes = transposed_window(op, kernel_sizes(op, kernel))
    window = window_over(attributes.window, value)
    rows = zip(attributes.cuts(window.sizes), attributes.output_padding, strict=True)
    return replace(window, pads=tuple((low, high - more) for (low, high), more in rows))


def _full_size(window: Window, at: int) -> Size:
    return (window.sizes[at] - 1) * window.strides[at] + window.extents[at]


def _cut_pads(full: TfTensor, window: Window) -> TfTensor:
    return pad(full, [(0, 0), *((-low, -high) for low, high in window.pads), (0, 0)])


@dataclass(frozen=True, slots=True)
class _KernelResult:
    """The result of TensorFlow's kernel: the pads that it cuts itself, and the sizes."""

    padding: str
    sizes: tuple[Size, ...]


def _kernel_result(window: Window) -> _KernelResult:
    """Return SAME, where just its pads are cut and the result has size * stride places; else all of it."""
    totals = [extent - stride for extent, stride in zip(window.extents, window.strides, strict=True)]
    if window.fixed and min(totals) >= 0 and list(window.pads) == [(t // 2, t - t // 2) for t in totals]:
        return _KernelResult("SAME", tuple(n * s for n, s in zip(window.sizes, window.strides, strict=True)))
    return _KernelResult("VALID", tuple(_full_size(window, at) for at in range(window.rank)))


def _convolve_transposed(
    op: OperatorContext, value: Value, tensor: TfTensor, kernel: Value, window: Window
) -> TfTensor:
    rank = window.rank
    weight = arrange_weight(op, kernel, (*range(2, 2 + rank), 1, 0))
    kernel_result = _kernel_result(window)
    strides, shape = list(window.strides), [value.size(0), *kernel_result.sizes, kernel.size(1)]
    if rank == 1:
        tensor, weight = tf.expand_dims(tensor, 1), tf.expand_dims(weight, 0)
        strides, shape = [1, *strides], [shape[0], 1, *shape[1:]]
    function = tf.nn.conv3d_transpose if rank == 3 else tf.nn.conv2d_transpose
    result = function(tensor, weight, pack_sizes(shape), [1, *strides, 1], kernel_result.padding)
    result = tf.squeeze(result, 1) if rank == 1 else result
    return result if kernel_result.padding == "SAME" else _cut_pads(result, window)


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
