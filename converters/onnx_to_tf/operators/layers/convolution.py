"""Convolutions. They work with channels last, in two spatial axes, which all kernels take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....onnx_graph.semantics.window_attributes import kernel_sizes
from ...common.padding_modes import pad_outside
from ...common.windows import Window, kernel_taps, read_window
from ...kernels.converter_safe import with_channels
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, lowers
from ...operator_context import OperatorContext
from ...values import Layout, TfTensor, Value, add_bias, computed, product, reshape


@lowers("Conv", since=1, T=FLOATS)
def conv(op: OperatorContext) -> Value:
    """Lower Conv: (N, C, ...) * (M, C / group, ...) + bias -> (N, M, ...)."""
    value, kernel = op.value(0), op.value(1)
    group = op.integer("group", 1)
    window = read_window(op, value, kernel_sizes(op, kernel))
    if value.shape[1] is not None and kernel.shape[1] is not None and value.shape[1] != kernel.shape[1] * group:
        op.refuse(f"{value.shape[1]} channels do not fit a weight of {kernel.shape[1]} and {group} groups")
    convolved = convolve(op, value.tensor(Layout.CHANNELS_LAST), kernel, window, group)
    return computed(add_bias(convolved, op.optional(2)), Layout.CHANNELS_LAST)


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
    """Convolve in three spatial axes by two.

    The elements that the kernel sees along the depth become channels, which vary slower, so that each group has its own
    ones side by side.
    """
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
