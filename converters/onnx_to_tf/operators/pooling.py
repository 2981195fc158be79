"""Pools, with channels last. Runtimes have kernels for two spatial axes; one and three are led to those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..lazy import tf
from ..reader import Op
from ..registry import FLOATS, lowers
from ..values import Layout, TfTensor, Value, computed, product, reshape
from ..windows import Window, read_window


@lowers("GlobalAveragePool", since=1, T=FLOATS)
def global_average_pool(op: Op) -> Value:
    """The mean over the spatial axes, which stay with size 1."""
    return _over_space(op, lambda t, axes: tf.reduce_mean(t, axes, keepdims=True))


@lowers("GlobalMaxPool", since=1, T=FLOATS)
def global_max_pool(op: Op) -> Value:
    """The largest over the spatial axes, which stay with size 1."""
    return _over_space(op, lambda t, axes: tf.reduce_max(t, axes, keepdims=True))


def _over_space(op: Op, function: Callable[[TfTensor, list[int]], TfTensor]) -> Value:
    value = op.value(0)
    native = value.tensor(value.layout)
    axes = sorted(value.place(axis) for axis in range(2, value.rank))
    return computed(function(native, axes), value.layout, non_negative=value.non_negative)


@lowers("MaxPool", since=1, T=FLOATS | {"int8", "uint8"})
def max_pool(op: Op) -> Value:
    """The largest in each window. Pads never win. The second output, where the largest lay, is not carried."""
    value = op.value(0)
    op.ignore("storage_order", because="it only orders the second output")
    window = _pool_window(op, value)
    tensor = _padded_for_max(value, window)
    window = replace(window, pads=((0, 0),) * window.rank)
    answer = _max_windows(tensor, window)
    return computed(answer, Layout.CHANNELS_LAST, non_negative=value.non_negative)


def _pool_window(op: Op, value: Value) -> Window:
    """The window, with the pads that ceil_mode adds: the last window may reach over the edge, but it begins inside
    the input or the pads before it."""
    window = read_window(op, value, op.ints("kernel_shape"))
    if not op.flag("ceil_mode"):
        return window
    pads = []
    for size, stride, extent, (low, high) in zip(
        window.sizes, window.strides, window.extents, window.pads, strict=True
    ):
        if size is None:
            op.refuse("ceil_mode on an axis whose size is known only when the model runs", fix="fix the axis' size")
        count = -(-(size + low + high - extent) // stride) + 1
        count -= (count - 1) * stride >= size + low
        pads.append((low, high + max((count - 1) * stride + extent - size - low - high, 0)))
    return replace(window, pads=tuple(pads))


def _padded_for_max(value: Value, window: Window) -> TfTensor:
    """Padding that cannot win. Zeros where nothing is negative. Else the edge mirrored, where each window that
    sees a mirrored element sees the element itself. Both keep the range of the values, which the lowest number
    would not: it makes 8-bit quantisation useless. That number remains for what is left."""
    tensor = value.tensor(Layout.CHANNELS_LAST)
    if not window.padded:
        return tensor
    widths = window.explicit_padding()
    if value.non_negative:
        return tf.pad(tensor, widths)
    if _mirrors(window):
        return tf.pad(tensor, widths, mode="SYMMETRIC")
    lowest = tensor.dtype.min if tensor.dtype.is_integer else -np.inf
    return tf.pad(tensor, widths, constant_values=tf.cast(lowest, tensor.dtype))


def _mirrors(window: Window) -> bool:
    """An element at distance i outside mirrors the one at distance i inside: the window that begins outside must
    reach as far in, and the axis must be that long."""
    return max(window.dilations) == 1 and all(
        size is not None and 2 * max(pads) <= kernel and max(pads) <= size
        for size, kernel, pads in zip(window.sizes, window.kernel, window.pads, strict=True)
    )


def _max_windows(tensor: TfTensor, window: Window) -> TfTensor:
    """The largest in each window of a tensor that is padded already."""
    if max(window.dilations) > 1:
        dense = tf.nn.pool(tensor, window.kernel, "MAX", dilations=window.dilations)
        return dense[(slice(None), *[slice(None, None, stride) for stride in window.strides])]
    return _in_planes(tensor, window, lambda t, k, s: tf.nn.max_pool2d(t, k, s, "VALID"))


def _in_planes(tensor: TfTensor, window: Window, pool: Callable[..., TfTensor]) -> TfTensor:
    """A pool along any number of axes, by pools along two: the largest, and the sum, of a box can be taken by parts."""
    if window.rank == 2:
        return pool(tensor, window.kernel, window.strides)
    if window.rank == 1:
        return tf.squeeze(pool(tf.expand_dims(tensor, 1), (1, *window.kernel), (1, *window.strides)), 1)
    size = [each if each is not None else tf.shape(tensor)[at] for at, each in enumerate(tensor.shape)]
    plane = pool(reshape(tensor, [product(size[:2]), *size[2:]]), window.kernel[1:], window.strides[1:])
    high, wide = plane.shape[1], plane.shape[2]
    line = reshape(plane, [size[0], size[1], product([high, wide]), size[4]])
    line = pool(line, (window.kernel[0], 1), (window.strides[0], 1))
    return reshape(line, [size[0], line.shape[1], high, wide, size[4]])


@lowers("AveragePool", since=7, T=FLOATS)
def average_pool(op: Op) -> Value:
    """The mean of each window: of what lies inside the input, or with count_include_pad inside the pads too."""
    value, with_pads = op.value(0), op.flag("count_include_pad")
    given = read_window(op, value, op.ints("kernel_shape"))
    window = _pool_window(op, value)
    if max(window.dilations) > 1:
        op.refuse("its attribute dilations is above 1")
    if window.padded and None in window.sizes and not (with_pads and window == given):
        op.refuse("it pads axes whose size is known only when the model runs", fix="fix their size when exporting")
    tensor = value.tensor(Layout.CHANNELS_LAST)
    tensor = tf.pad(tensor, window.explicit_padding()) if window.padded else tensor
    means = _in_planes(tensor, window, lambda t, k, s: tf.nn.avg_pool2d(t, k, s, "VALID"))
    shares = _counted_share(given, window, with_pads) if window.padded else None
    if shares is not None and not (shares == 1).all():
        means = means / tf.constant(shares[None, ..., None], means.dtype)
    return computed(means, Layout.CHANNELS_LAST, non_negative=value.non_negative)


def _counted_share(given: Window, window: Window, with_pads: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Which part of each window counts: the product of the parts along each axis."""
    shares: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = np.ones((), np.float64)
    if with_pads and given == window:
        return shares
    for at, given_size in enumerate(window.sizes):
        low, high = window.pads[at]
        size = given_size or 0  # the caller has refused sizes that are not known
        counted = np.zeros(low + size + high)
        first, last = (0, low + size + given.pads[at][1]) if with_pads else (low, low + size)
        counted[first:last] = 1
        starts = range(0, len(counted) - window.kernel[at] + 1, window.strides[at])
        along = np.array([counted[start : start + window.kernel[at]].mean() for start in starts])
        shares = shares[..., None] * along
    return shares
