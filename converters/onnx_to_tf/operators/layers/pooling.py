"""Pools, with channels last, and back. Runtimes pool along two spatial axes; one and three are reduced to those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import reduce
from math import prod

from ....onnx_graph.semantics.window_attributes import pads_by_axis
from ...common import padding_modes
from ...common.padding_modes import sizes_of
from ...common.windows import Window, kernel_taps, read_window
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, INDICES, NUMBERS, lowers
from ...operator_context import OperatorContext
from ...values import Layout, Size, TfTensor, Value, computed, line_along, pack_sizes, product, reshape

_MOVES_ONLY = FLOATS | {"int8", "uint8"}


@lowers("GlobalAveragePool", "GlobalMaxPool", since=1, T=FLOATS)
def global_pool(op: OperatorContext) -> Value:
    """Lower GlobalAveragePool and GlobalMaxPool: the mean or the largest over space, whose axes stay with size 1."""
    function = tf.reduce_max if op.op_type == "GlobalMaxPool" else tf.reduce_mean
    return _reduce_space(op, lambda t, axes: function(t, axes, keepdims=True))


@lowers("GlobalLpPool", since=1, T=FLOATS)
def global_lp_pool(op: OperatorContext) -> Value:
    """Lower GlobalLpPool: (sum |x|^p)^(1/p) over the spatial axes, which stay with size 1."""
    p = op.real("p", 2.0)
    return _reduce_space(op, lambda t, axes: _root(tf.reduce_sum(_power(t, p), axes, keepdims=True), p))


def _reduce_space(op: OperatorContext, function: Callable[[TfTensor, list[int]], TfTensor]) -> Value:
    value = op.value(0)
    native = value.tensor(value.layout)
    axes = sorted(value.place(axis) for axis in range(2, value.rank))
    return computed(function(native, axes), value.layout, non_negative=value.non_negative)


@lowers("MaxPool", since=1, T=_MOVES_ONLY)
def max_pool(op: OperatorContext) -> list[Value | None]:
    """Lower MaxPool: the largest in each window, and where it lay. Pads never win."""
    value = op.value(0)
    window = read_window(op, value, op.ints("kernel_shape"), ceil=op.flag("ceil_mode"))
    tensor = value.tensor(Layout.CHANNELS_LAST)
    column_major = op.flag("storage_order")
    largest = _max_of_windows(op, value, tensor, window)
    answer = computed(largest, Layout.CHANNELS_LAST, non_negative=value.non_negative)
    if not op.wants(1):
        return [answer]
    places = _places(tensor, largest, window, column_major=column_major)
    return [answer, computed(places, Layout.CHANNELS_LAST)]


def _max_of_windows(op: OperatorContext, value: Value, tensor: TfTensor, window: Window) -> TfTensor:
    """Return each window's largest; TensorFlow's SAME adds what cannot win, other pads are an operator of their own."""
    if window.dilated:
        return _combine_windows(_pad_for_max(op, value, tensor, window), window, tf.maximum)
    if window.same:
        return _pool_by_planes(tensor, window, lambda t, k, s: op.kernels.max_pool2d(t, k, s, "SAME"))
    tensor = _pad_for_max(op, value, tensor, window)
    return _pool_by_planes(tensor, window, lambda t, k, s: op.kernels.max_pool2d(t, k, s, "VALID"))


def _pad_for_max(op: OperatorContext, value: Value, tensor: TfTensor, window: Window) -> TfTensor:
    """Pad so that the padding cannot win.

    Zeros where nothing is negative. Else the element at the edge, which every window that begins outside and is not
    dilated sees itself. Both keep the range of the values, which the lowest number would not: it makes 8-bit
    quantisation useless. That number remains for all other cases.
    """
    if value.non_negative:
        return padding_modes.pad_outside(tensor, window.widths)
    rows = zip(window.pads, window.kernel, strict=True)
    if not window.dilated and all(_at_most(width, k - 1) for pair, k in rows for width in pair):
        if all(_at_most(width, 1) for pair in window.pads for width in pair) and window.fixed:
            return tf.pad(tensor, window.widths, mode="SYMMETRIC") if window.padded else tensor
        return padding_modes.pad_with_elements(tensor, window.widths, padding_modes.edge)
    integer, dtype = tensor.dtype.is_integer, tensor.dtype
    lowest = tf.constant(dtype.min, dtype) if integer else padding_modes.minus_infinity(op.kernels, tensor)
    return padding_modes.pad_outside(tensor, window.widths, lowest)


def _at_most(size: Size, limit: int) -> bool:
    """Return whether a pad is at most `limit`; computed ones (ceil_mode, auto_pad) are below the kernel by rule."""
    return not isinstance(size, int) or size <= limit


def _combine_windows(tensor: TfTensor, window: Window, combine: Callable[[TfTensor, TfTensor], TfTensor]) -> TfTensor:
    """Combine each window of a tensor that is padded already along one axis after the other."""
    for at in range(window.rank):
        tensor = reduce(combine, kernel_taps(tensor, 1 + at, window, at))
    return tensor


def _pool_by_planes(tensor: TfTensor, window: Window, pool: Callable[..., TfTensor]) -> TfTensor:
    """Pool along any number of axes, by pools along two: the largest, and the sum, of a box can be taken by parts."""
    if window.rank == 2:
        return pool(tensor, window.kernel, window.strides)
    if window.rank == 1:
        return tf.squeeze(pool(tf.expand_dims(tensor, 1), (1, *window.kernel), (1, *window.strides)), 1)
    if window.rank != 3:
        raise NotImplementedError(f"a pool with {window.rank} spatial axes")
    size = sizes_of(tensor)
    plane = pool(reshape(tensor, [product(size[:2]), *size[2:]]), window.kernel[1:], window.strides[1:])
    _, high, wide, _ = sizes_of(plane)
    line = reshape(plane, [size[0], size[1], product([high, wide]), size[4]])
    line = pool(line, (window.kernel[0], 1), (window.strides[0], 1))
    return reshape(line, [size[0], sizes_of(line)[1], high, wide, size[4]])


def _places(tensor: TfTensor, largest: TfTensor, window: Window, *, column_major: bool) -> TfTensor:
    """Return where in the input the largest of each window lies: the first such place along the rows. int64."""
    sizes = sizes_of(tensor)
    plane = product(sizes[1:-1])
    grid = reshape(tf.range(plane), [1, *sizes[1:-1], 1])
    places = _taps_of_box(padding_modes.pad_outside(grid, window.widths, tf.constant(-1)), window)
    values = _taps_of_box(padding_modes.pad_outside(tensor, window.widths), window)
    first = tf.fill(tf.shape(largest), plane)
    for at, value in zip(places, values, strict=True):  # NaN is less than nothing, and so found too
        first = tf.minimum(first, tf.where((at >= 0) & ~(value < largest), at, plane))
    if column_major:
        first = _by_columns(first, sizes[1:-1])
    batch, channels = tf.range(sizes[0]), tf.range(sizes[-1])
    before = reshape(batch, [sizes[0], *[1] * (window.rank + 1)]) * sizes[-1] + channels
    return tf.cast(first, tf.int64) + tf.cast(before, tf.int64) * tf.cast(plane, tf.int64)


def _taps_of_box(tensor: TfTensor, window: Window) -> list[TfTensor]:
    """Return what each element of the kernel sees, in the kernel's own order."""
    seen = [tensor]
    for at in range(window.rank):
        seen = [tap for part in seen for tap in kernel_taps(part, 1 + at, window, at)]
    return seen


def _by_columns(places: TfTensor, sizes: list[Size]) -> TfTensor:
    """Convert places along the rows to places along the columns: the first axis varies fastest."""
    answer, after = 0, product(sizes)
    step: Size = 1
    for size in sizes:
        after = after // size
        answer = answer + places // after % size * step
        step = step * size
    return answer


@lowers("AveragePool", since=7, T=FLOATS)
def average_pool(op: OperatorContext) -> Value:
    """Lower AveragePool: the mean of each window, inside the input, or with count_include_pad inside the pads too."""
    value, with_pads, ceil = op.value(0), op.flag("count_include_pad"), op.flag("ceil_mode")
    unrounded = read_window(op, value, op.ints("kernel_shape"))
    window = read_window(op, value, unrounded.kernel, ceil=True) if ceil else unrounded
    tensor = value.tensor(Layout.CHANNELS_LAST)
    fused = window.same and not window.dilated and not (with_pads and window.padded)
    if fused:
        means = _pool_by_planes(tensor, window, lambda t, k, s: op.kernels.avg_pool2d(t, k, s, "SAME"))
    else:
        means = _means(op, padding_modes.pad_outside(tensor, window.widths), window)
        counts_all = with_pads and (window is unrounded or (window.fixed and window.pads == unrounded.pads))
        if window.padded and not counts_all:
            means = means * _count_correction(unrounded, window, means, with_pads=with_pads)
    return computed(means, Layout.CHANNELS_LAST, non_negative=value.non_negative)


def _means(op: OperatorContext, tensor: TfTensor, window: Window) -> TfTensor:
    """Return the mean of all elements of each window of a tensor that is padded already."""
    if window.dilated:
        return _combine_windows(tensor, window, tf.add) * tf.cast(1 / prod(window.kernel), tensor.dtype)
    return _pool_by_planes(tensor, window, lambda t, k, s: op.kernels.avg_pool2d(t, k, s, "VALID"))


def _count_correction(unrounded: Window, window: Window, means: TfTensor, *, with_pads: bool) -> TfTensor:
    """Return kernel / count along each axis: the divisor of elements that count; computed now if sizes are known."""
    known = window.fixed and all(isinstance(size, int) for size in window.sizes)
    with tf.init_scope() if known else nullcontext():
        answer = tf.ones([1] * (window.rank + 2), means.dtype)
        for at in range(window.rank):
            (low, high), (before, after) = window.pads[at], unrounded.pads[at] if with_pads else (0, 0)
            counted = tf.ones(pack_sizes([1, before + window.sizes[at] + after, 1]), means.dtype)
            along = padding_modes.pad(counted, [(0, 0), (low - before, high - after), (0, 0)])
            counts = _combine_windows(along, window.along(slice(at, at + 1)), tf.add)
            answer = answer * line_along(window.kernel[at] / counts, 1 + at, window.rank + 2)
    return tf.constant(answer.numpy()) if known else answer


@lowers("LpPool", since=1, T=FLOATS)
def lp_pool(op: OperatorContext) -> Value:
    """Lower LpPool: (sum |x|^p)^(1/p) of each window; pads add nothing."""
    value, p = op.value(0), op.real("p", 2.0)
    window = read_window(op, value, op.ints("kernel_shape"), ceil=op.flag("ceil_mode"))
    powers = padding_modes.pad_outside(_power(value.tensor(Layout.CHANNELS_LAST), p), window.widths)
    sums = _means(op, powers, window) * tf.cast(prod(window.kernel), powers.dtype)
    return computed(_root(sums, p), Layout.CHANNELS_LAST, non_negative=True)


def _power(tensor: TfTensor, p: float) -> TfTensor:
    if p == 2:
        return tf.square(tensor)
    return tf.abs(tensor) if p == 1 else tf.pow(tf.abs(tensor), tf.cast(p, tensor.dtype))


def _root(tensor: TfTensor, p: float) -> TfTensor:
    if p == 2:
        return tf.sqrt(tensor)
    return tensor if p == 1 else tf.pow(tensor, tf.cast(1 / p, tensor.dtype))


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
        result = padding_modes.pad(result, [(0, want - size) for want, size in zip(wanted, shape, strict=True)])
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
    index = _block_places(padded_sizes, block, strides, dilations)
    batch, columns = value.size(0), product(block)
    channels = value.size(1) // columns
    parts = reshape(value.tensor(), [product([batch, channels]), -1])
    flat = op.kernels.row_sums(tf.transpose(parts), tf.reshape(index, [-1]), pack_sizes([product(padded_sizes)])[0])
    image_padded = reshape(tf.transpose(flat), [batch, channels, *padded_sizes])
    return computed(padding_modes.pad(image_padded, [(0, 0), (0, 0), *((-low, -high) for low, high in pads)]))


def _block_places(
    padded_sizes: Sequence[Size], block: Sequence[Size], strides: Sequence[int], dilations: Sequence[int]
) -> TfTensor:
    """Return where each element of each block lies in the flat, padded image: elements first, then blocks. int32."""
    rank = len(padded_sizes)
    known = all(isinstance(size, int) for size in (*padded_sizes, *block))
    with tf.init_scope() if known else nullcontext():
        answer = tf.zeros([1] * 2 * rank, tf.int32)
        for at in range(rank):
            count = (padded_sizes[at] - dilations[at] * (block[at] - 1) - 1) // strides[at] + 1
            inside = line_along(tf.range(block[at]) * dilations[at], at, 2 * rank)
            begin = line_along(tf.range(count) * strides[at], rank + at, 2 * rank)
            answer = answer + (inside + begin) * product(padded_sizes[at + 1 :])
    return tf.constant(answer.numpy()) if known else answer
