"""Images read at places that the model computes, and their pixels rearranged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as every
from typing import Any

from ....onnx_graph.semantics.resampling_attributes import grid_sample_attributes
from ...kernels.tflite_converter_forms import clip_index
from ...lazy_tensorflow import tf
from ...lowerings import ANY, FLOATS, INDICES, lowers
from ...operator_context import OperatorContext
from ...values import Layout, Size, TfTensor, Value, computed, line_along, pack_sizes, product

_CUBIC = -0.75


@lowers("GridSample", since=16, T1=ANY, T2=FLOATS)
def grid_sample(op: OperatorContext) -> Value:
    """Lower GridSample: X (N, C, spatial) read at a grid (N, places, numbers by spatial axis, the innermost first)."""
    value, grid, sampling = op.value(0), op.value(1), grid_sample_attributes(op)
    mode, padding, corners, dtype = sampling.mode, sampling.padding, sampling.align_corners, value.dtype
    if mode != "nearest" and dtype not in FLOATS:
        op.refuse(f"it interpolates {dtype}, for which the specification has no rule", fix="cast it to float32")
    image = value.tensor(Layout.CHANNELS_LAST)
    if mode != "nearest" and dtype in ("float16", "bfloat16"):
        image = tf.cast(image, tf.float32)
    wide = tf.float64 if "float64" in (grid.dtype, dtype) else tf.float32
    points = tf.cast(grid.tensor(), wide)
    axes = [
        _GridAxis(value.size(axis), points[..., value.rank - 1 - axis], padding, corners)
        for axis in range(2, value.rank)
    ]
    pixels = _read(image, [value.size(axis) for axis in range(value.rank)], [axis.taps(mode) for axis in axes])
    return computed(tf.cast(pixels, dtype), Layout.CHANNELS_LAST)


class _GridAxis:
    """One spatial axis: its size, and where the grid's places lie along it, as torch and the specification have it."""

    def __init__(self, size: Size, normalized: TfTensor, padding: str, corners: bool) -> None:
        self.padding = padding
        self.size = size
        self.length = tf.cast(size, normalized.dtype)
        self.low: TfTensor = self.length * 0 if corners else -0.5
        self.high = self.length - 1 if corners else self.length - 0.5
        half = (normalized + 1) / 2
        self.at = half * (self.length - 1) if corners else half * self.length - 0.5

    def taps(self, mode: str) -> list[tuple[TfTensor, TfTensor, TfTensor]]:
        """Return the elements that are read: index, weight, and whether it lies inside, in the shape of the places."""
        if mode == "nearest":
            at = self._inside(tf.round(self.at))  # halves to even, as the specification says
            return [self._tap(at, None)]
        at = self._inside(self.at)
        low = tf.floor(at)
        part = at - low
        weights = [1 - part, part] if mode == "linear" else _cubic(part)
        first = 0 if mode == "linear" else -1
        return [self._tap(low + (first + step), weight) for step, weight in enumerate(weights)]

    def _inside(self, at: TfTensor) -> TfTensor:
        """Mirror a place beyond the border for reflection, and leave it for zeros and border.

        There its elements are looked at one by one, as PyTorch and ONNX Runtime do; the specification's reference moves
        the places of cubic ones too.
        """
        if self.padding != "reflection":
            return at
        return tf.where((at < self.low) | (at > self.high), self._mirrored(at), at)

    def _mirrored(self, at: TfTensor) -> TfTensor:
        """Mirror a place to and fro between the two borders. Between borders that coincide there is one place."""
        span = self.high - self.low
        twice = tf.where(span > 0, 2 * span, tf.ones_like(span))
        along = tf.math.floormod(at - self.low, twice)
        return self.low + tf.minimum(tf.minimum(along, tf.maximum(twice - along, 0)), span)

    def _tap(self, at: TfTensor, weight: TfTensor) -> tuple[TfTensor, TfTensor, TfTensor]:
        inside = (at >= 0) & (at <= self.length - 1) if self.padding == "zeros" else None
        index = tf.cast(tf.clip_by_value(self._inside(at), 0, self.length - 1), tf.int32)
        return clip_index(index, self.size), weight, inside  # cut twice: NaN is no place


def _cubic(t: TfTensor) -> list[TfTensor]:
    """Return the weights of the four elements around a place that lies `t` behind the second one."""
    a = _CUBIC

    def near(x: TfTensor) -> TfTensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: TfTensor) -> TfTensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _read(image: TfTensor, sizes: Sequence[Size], axes: Sequence[Sequence[Any]]) -> TfTensor:
    """Return the weighted sum over every choice of a tap by axis, (N, places, C); `sizes` are (N, C, spatial)."""
    batch, channels, *spatial = sizes
    rows = tf.reshape(image, pack_sizes([-1, channels]) if isinstance(channels, int) else tf.stack([-1, channels]))
    places = axes[0][0][0].shape.rank
    start = tf.reshape(tf.range(batch) * product(spatial), [-1] + [1] * (places - 1))
    total = None
    for taps in every(*axes):
        index, weight, inside = start * 0, None, None
        for size, (at, share, valid) in zip(spatial, taps, strict=True):
            index = index * size + at
            weight = share if weight is None else weight * share
            inside = valid if inside is None else inside & valid
        pixel = tf.gather(rows, index + start)
        if inside is not None:
            pixel = tf.where(tf.expand_dims(inside, -1), pixel, tf.zeros_like(pixel))
        if weight is not None:
            pixel = pixel * tf.expand_dims(tf.cast(weight, pixel.dtype), -1)
        total = pixel if total is None else total + pixel
    return total


@lowers("AffineGrid", since=20, T1=FLOATS, T2=INDICES)
def affine_grid(op: OperatorContext) -> Value:
    """Lower AffineGrid: (N, 2, 3) or (N, 3, 4) times an image's places, -1 to 1: (N, spatial axes, 2 or 3)."""
    theta, corners = op.tensor(0), op.flag("align_corners")
    spatial = op.sizes(1, "size")[2:]
    wide = tf.float64 if theta.dtype == tf.float64 else tf.float32
    lines = [_line(size, wide, corners) for size in spatial]
    rank, shape = len(lines), pack_sizes(spatial)
    spread = [tf.broadcast_to(line_along(line, axis, rank), shape) for axis, line in enumerate(lines)]
    places = tf.reshape(tf.stack([*spread[::-1], tf.ones_like(spread[0])], -1), [-1, rank + 1])
    moved = tf.matmul(places[None], tf.cast(theta, wide), transpose_b=True)
    return computed(tf.cast(tf.reshape(moved, pack_sizes([op.value(0).size(0), *spatial, rank])), theta.dtype))


def _line(size: Size, dtype: Any, corners: bool) -> TfTensor:
    """Return the centres of an axis' pixels: its ends are -1 and 1, or with `corners` the first and last centre are."""
    at, length = tf.cast(tf.range(size), dtype), tf.cast(size, dtype)
    return at * 2 / tf.maximum(length - 1, 1) - 1 if corners else (2 * at + 1) / length - 1


@lowers("DepthToSpace", since=1, until=28, T=ANY)
def depth_to_space(op: OperatorContext) -> Value:
    """Lower DepthToSpace: (N, C b b, H, W) -> (N, C, H b, W b); the block's axes before C (DCR) or after (CRD)."""
    block, mode, value = op.integer("blocksize"), op.word("mode", "DCR", ("DCR", "CRD")), op.value(0)
    native = value.tensor(Layout.CHANNELS_LAST)
    if mode == "CRD":
        native = _swap_groups(native, [value.size(1) // (block * block), block * block])
    return computed(native if block == 1 else tf.nn.depth_to_space(native, block), Layout.CHANNELS_LAST)


@lowers("SpaceToDepth", since=1, until=28, T=ANY)
def space_to_depth(op: OperatorContext) -> Value:
    """Lower SpaceToDepth: (N, C, H b, W b) -> (N, b b C, H, W); the block's axes before C (DCR) or after (CRD)."""
    block, mode, value = op.integer("blocksize"), op.word("mode", "DCR", ("DCR", "CRD")), op.value(0)
    native = value.tensor(Layout.CHANNELS_LAST)
    native = native if block == 1 else tf.nn.space_to_depth(native, block)
    if mode == "CRD":
        native = _swap_groups(native, [block * block, value.size(1)])
    return computed(native, Layout.CHANNELS_LAST)


def _swap_groups(native: TfTensor, groups: Sequence[Size]) -> TfTensor:
    """Swap the two axes that the innermost one is made of."""
    first, second = groups
    if isinstance(first, int) and isinstance(second, int):
        return tf.gather(native, [b + a * second for b in range(second) for a in range(first)], axis=-1)
    order = tf.transpose(tf.reshape(tf.range(first * second), pack_sizes(groups)))
    return tf.gather(native, tf.reshape(order, [-1]), axis=-1)
