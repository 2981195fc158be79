"""Convolutions. They work with channels last, in two spatial axes where TensorFlow and TFLite have their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..lazy import tf
from ..reader import Op
from ..registry import FLOATS, lowers
from ..values import Layout, TfTensor, Value, computed, pack
from ..windows import Window, read_window, same_padding

_TAKEN = FLOATS


@lowers("Conv", since=1, T=_TAKEN)
def conv(op: Op) -> Value:
    """(N, C, ...) * (M, C / group, ...) + bias -> (N, M, ...)"""
    value, kernel = op.value(0), op.value(1)
    group = op.integer("group", 1)
    window = read_window(op, value, _kernel_sizes(op, kernel))
    if window.rank == 3:
        product = _conv3d(op, value, kernel, window, group)
    else:
        product = _conv2d(op, value, kernel, window, group)
    bias = op.optional(2)
    product = product if bias is None else tf.nn.bias_add(product, bias.tensor())
    return computed(product, Layout.CHANNELS_LAST)


def _kernel_sizes(op: Op, kernel: Value) -> tuple[int, ...]:
    """The spatial sizes of the weight, which the attribute may only repeat."""
    found = tuple(size for size in kernel.shape[2:] if size is not None)
    if len(found) != kernel.rank - 2 or tuple(op.ints("kernel_shape", found)) != found:
        op.refuse(
            f"its weight has the shape {kernel.shape}, which does not fit its kernel_shape", fix="check the model"
        )
    if not 1 <= len(found) <= 3:
        op.refuse(f"it has {len(found)} spatial axes, and only 1 to 3 can be carried")
    return found


def arranged(op: Op, kernel: Value, order: Sequence[int], shape: Sequence[int] = ()) -> TfTensor:
    """A weight in the order of axes that TensorFlow wants; a known one is arranged now and held as a variable."""
    if kernel.array is not None:
        return op.weights.hold(kernel.array, order, shape)
    moved = tf.transpose(kernel.tensor(), order)
    return tf.reshape(moved, shape) if shape else moved


def _conv2d(op: Op, value: Value, kernel: Value, window: Window, group: int) -> TfTensor:
    """One or two spatial axes; a single one gets an axis of size 1 before it."""
    flat = window.rank == 1
    window = window.widened() if flat else window
    tensor = value.tensor(Layout.CHANNELS_LAST)
    tensor = tf.expand_dims(tensor, 1) if flat else tensor
    channels, filters = value.shape[1], kernel.shape[0]
    if channels is None or filters is None:
        op.refuse("its number of channels is known only when the model runs", fix="fix it when exporting")
    padding: str | list[list[int]] = "SAME" if same_padding(window) else window.explicit_padding()
    shape = (*window.kernel, channels // group, filters)
    order = (2, 1, 0) if flat else (2, 3, 1, 0)
    depthwise = group == channels and group > 1 and len(set(window.strides)) == 1
    if depthwise and (max(window.dilations) == 1 or max(window.strides) == 1):
        # (M, 1, h, w), where M = C * multiplier and C varies slowest -> (h, w, C, multiplier)
        weight = arranged(op, kernel, order, (*window.kernel, channels, filters // channels))
        if padding != "SAME":  # TensorFlow 2.21 fuses explicit padding with a bias, and aborts
            tensor, padding = tf.pad(tensor, padding) if window.padded else tensor, "VALID"
        made = tf.nn.depthwise_conv2d(tensor, weight, (1, *window.strides, 1), padding, dilations=window.dilations)
    else:
        weight = arranged(op, kernel, order, shape)
        made = tf.nn.conv2d(tensor, weight, window.strides, padding, dilations=window.dilations)
    return tf.squeeze(made, 1) if flat else made


def _conv3d(op: Op, value: Value, kernel: Value, window: Window, group: int) -> TfTensor:
    tensor = value.tensor(Layout.CHANNELS_LAST)
    same = same_padding(window)
    if not same:
        tensor = tf.pad(tensor, window.explicit_padding())
    weight = arranged(op, kernel, (2, 3, 4, 1, 0))
    if max(window.dilations) > 1 and max(window.strides) > 1:
        op.refuse("it has strides and dilations in three spatial axes")
    pieces = [
        tf.nn.convolution(part, each, window.strides, "SAME" if same else "VALID", dilations=window.dilations)
        for part, each in zip(tf.split(tensor, group, -1), tf.split(weight, group, -1), strict=True)
    ]
    return tf.concat(pieces, -1) if group > 1 else pieces[0]


@dataclass(frozen=True, slots=True)
class _Uncut:
    """A transposed convolution before the pads are cut: along each axis its size, where to begin, and what to keep."""

    size: tuple[object, ...]
    begin: tuple[int, ...]
    keep: tuple[object, ...]


@lowers("ConvTranspose", since=1, T=_TAKEN)
def conv_transpose(op: Op) -> Value:
    """(N, C, ...) * (C, M / group, ...) + bias -> (N, M, ...), each axis stride (size - 1) + extent - pads wide."""
    value, kernel = op.value(0), op.value(1)
    group, window = op.integer("group", 1), _transposed_window(op, value, kernel)
    uncut = _uncut(op, value, window)
    tensor = value.tensor(Layout.CHANNELS_LAST)
    rank = window.rank
    weight = arranged(op, kernel, (*range(2, 2 + rank), 1, 0))
    pieces = [
        _transposed(part, each, window, (value.size(0), *uncut.size))
        for part, each in zip(tf.split(tensor, group, -1), tf.split(weight, group, -1), strict=True)
    ]
    made = tf.concat(pieces, -1) if group > 1 else pieces[0]
    bias = op.optional(2)
    made = _cut(made, uncut)
    return computed(made if bias is None else tf.nn.bias_add(made, bias.tensor()), Layout.CHANNELS_LAST)


def _transposed_window(op: Op, value: Value, kernel: Value) -> Window:
    if op.has("output_shape"):
        op.refuse("its attribute output_shape is not carried", fix="export it with pads and output_padding")
    if op.word("auto_pad", "NOTSET", ("NOTSET", "VALID")) == "VALID" and op.has("pads"):
        op.refuse("it has both auto_pad and pads", fix="check the model with onnx.checker")
    sizes = _kernel_sizes(op, kernel)
    rank = len(sizes)
    pads = op.ints("pads", [0] * 2 * rank)
    window = Window(
        kernel=sizes,
        strides=tuple(op.ints("strides", [1] * rank)),
        dilations=tuple(op.ints("dilations", [1] * rank)),
        pads=tuple(zip(pads[:rank], pads[rank:], strict=True)),
        sizes=value.shape[2:],
    )
    if max(window.dilations) > 1:
        op.refuse("its attribute dilations is above 1")
    return window


def _uncut(op: Op, value: Value, window: Window) -> _Uncut:
    extra = op.ints("output_padding", [0] * window.rank)
    have = [value.size(2 + at) for at in range(window.rank)]
    full = tuple((size - 1) * s + k for size, s, k in zip(have, window.strides, window.kernel, strict=True))
    keep = tuple(size - low - high + more for size, (low, high), more in zip(full, window.pads, extra, strict=True))
    grown = tuple(size + max(more - high, 0) for size, (_, high), more in zip(full, window.pads, extra, strict=True))
    return _Uncut(grown, tuple(low for low, _ in window.pads), keep)


def _transposed(tensor: TfTensor, weight: TfTensor, window: Window, target: Sequence[object]) -> TfTensor:
    flat = window.rank == 1
    strides, shape = list(window.strides), [*target, weight.shape[-2]]
    if flat:
        tensor, weight = tf.expand_dims(tensor, 1), tf.expand_dims(weight, 0)
        strides, shape = [1, *strides], [shape[0], 1, *shape[1:]]
    function = tf.nn.conv3d_transpose if window.rank == 3 else tf.nn.conv2d_transpose
    made = function(tensor, weight, pack(shape), [1, *strides, 1], "VALID")
    return tf.squeeze(made, 1) if flat else made


def _cut(tensor: TfTensor, uncut: _Uncut) -> TfTensor:
    if not any(uncut.begin) and all(a is b or a == b for a, b in zip(uncut.size, uncut.keep, strict=True)):
        return tensor
    cuts = [slice(low, low + size) for low, size in zip(uncut.begin, uncut.keep, strict=True)]  # type: ignore[operator]
    return tensor[(slice(None), *cuts, slice(None))]
