"""Resize and Upsample, by scales or to sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose
from typing import Any

import numpy as np

from ....onnx_graph.semantics.resampling_attributes import ResizeAttributes, ResizeMethod, resize_attributes
from ...common.resampling import ResampledAxis, resample_axes
from ...lazy_tensorflow import tf
from ...lowerings import ANY, FLOATS, NUMBERS, lowers
from ...operator_context import OperatorContext
from ...values import Size, Value, is_same_size

_NARROW = ("float16", "bfloat16", "float32")


@lowers("Resize", since=11, T1=ANY, T2=FLOATS)
@lowers("Resize", since=10, until=10, T=ANY)
@lowers("Upsample", since=7, T=ANY)
def resize(op: OperatorContext) -> Value:
    """Lower Resize and Upsample: by scales or to sizes, along all axes or those that are named."""
    value, resizing = op.value(0), resize_attributes(op, NUMBERS)
    regions = _regions(op, len(resizing.axes), resizing.method)
    if not resizing.by_sizes:
        axes = _by_scales(value, resizing, _scales(op, resizing), regions)
    elif resizing.policy == "stretch":
        axes = [_stretched(op, value, *row) for row in zip(resizing.axes, op.sizes(3, "sizes"), regions, strict=True)]
    else:
        larger = resizing.policy == "not_smaller"
        axes = _in_proportion(op, value, resizing.axes, op.sizes(3, "sizes"), regions, larger=larger)
    axes = [axis for axis in axes if not _is_unchanged(axis)]
    wide = "float32" if value.dtype in _NARROW or not (value.dtype in FLOATS or op.kernels.doubles) else "float64"
    return resample_axes(value, axes, resizing.method, wide, op.weights) if axes else value


def _is_unchanged(axis: ResampledAxis) -> bool:
    unscaled = isinstance(axis.scale, float) and isclose(axis.scale, 1) and axis.size is axis.target
    return unscaled and axis.region == (0.0, 1.0)


def _regions(op: OperatorContext, count: int, method: ResizeMethod) -> list[tuple[Any, Any]]:
    """Return start and end of what is cut out of each axis: only one of the modes cuts."""
    if method.outside is None:
        return [(0.0, 1.0)] * count
    parts = _numbers(op.value(1), 2 * count)
    return list(zip(parts[:count], parts[count:], strict=True))


def _scales(op: OperatorContext, resizing: ResizeAttributes) -> Sequence[Any]:
    if resizing.scales_at is None:
        return resizing.scales or ()
    return _numbers(op.value(resizing.scales_at), len(resizing.axes))


def _numbers(value: Value, count: int) -> list[Any]:
    if value.array is None:
        return list(tf.unstack(value.tensor(), count))
    return [float(number) for number in value.array]


def _by_scales(
    value: Value, resizing: ResizeAttributes, scales: Sequence[Any], regions: Sequence[tuple[Any, Any]]
) -> list[ResampledAxis]:
    """Return the axes by sizes times scales, cut to whole numbers."""
    corners = resizing.exact_corners
    axes = []
    for axis, scale, region in zip(resizing.axes, scales, regions, strict=True):
        size = value.size(axis)
        target, length = _product(size, scale)
        is_integer = isinstance(length, int | float) and length == target
        known_whole = isinstance(scale, float) and scale == int(scale)
        exact = is_integer or known_whole or corners
        axes.append(ResampledAxis(axis, size, target, scale, target if corners else length, exact, region))
    return axes


def _product(size: Size, scale: Any) -> tuple[Size, Any]:
    """Return (whole, length), in float32 as onnx's shape inference has it."""
    if isinstance(scale, float) and scale == int(scale):
        return (size if scale == 1 else size * int(scale)), (size if scale == 1 else size * int(scale))
    if isinstance(size, int) and isinstance(scale, float):
        return int(np.floor(np.float32(size) * np.float32(scale))), size * scale
    length = tf.cast(size, tf.float32) * tf.cast(scale, tf.float32)
    return tf.cast(tf.floor(length), tf.int32), length


def _stretched(op: OperatorContext, value: Value, axis: int, target: Size, region: tuple[Any, Any]) -> ResampledAxis:
    size = value.size(axis)
    if isinstance(size, int) and size == 0 and not (isinstance(target, int) and target == 0):
        op.refuse(f"axis {axis} has no elements to resize", fix="check the model's sizes")
    if is_same_size(size, target):
        return ResampledAxis(axis, size, size, 1.0, size, exact=True, region=region)
    return ResampledAxis(axis, size, target, _ratio(target, size), target, exact=True, region=region)


def _ratio(a: Size, b: Size) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return a / b
    return tf.cast(a, tf.float32) / tf.cast(b, tf.float32)


def _in_proportion(
    op: OperatorContext,
    value: Value,
    named: Sequence[int],
    targets: Sequence[Size],
    regions: Sequence[tuple[Any, Any]],
    *,
    larger: bool,
) -> list[ResampledAxis]:
    """Return all axes scaled by the smallest ratio of a target to a size, or by the largest; halves are rounded up."""
    over, under = targets[0], value.size(named[0])
    for axis, target in zip(named[1:], targets[1:], strict=True):
        a, b = wide_product(target, under), wide_product(over, value.size(axis))
        over, under = (
            _choose(a > b if larger else a < b, new, old) for new, old in ((target, over), (value.size(axis), under))
        )
    if isinstance(under, int) and under == 0:
        op.refuse("one of its axes has no elements", fix="check the model's sizes")
    scale = _ratio(over, under)
    axes = []
    for axis, region in zip(named, regions, strict=True):
        size = value.size(axis)
        target = op.kernels.scaled_size(size, over, under)
        length = (
            size * scale if isinstance(size, int) or isinstance(scale, float) else tf.cast(size, tf.float32) * scale
        )
        axes.append(ResampledAxis(axis, size, target, scale, length, exact=False, region=region))
    return axes


def wide_product(a: Size, b: Size) -> Any:
    """Return the product of two sizes, in 64 bits where it is computed: two lengths of a minute of sound pass 32."""
    return a * b if isinstance(a, int) and isinstance(b, int) else tf.cast(a, tf.int64) * tf.cast(b, tf.int64)


def _choose(condition: Any, a: Size, b: Size) -> Size:
    return (a if condition else b) if isinstance(condition, bool) else tf.where(condition, a, b)
