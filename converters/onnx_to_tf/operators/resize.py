"""Resize: along each axis an own linear map, whose weights are computed while lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

import numpy as np

from ....models.signature import Array
from ..lazy import tf
from ..reader import Op
from ..registry import FLOATS, lowers
from ..values import Layout, Size, TfTensor, Value, computed, is_axis_size

_COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
_NEAREST: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}


@dataclass(frozen=True, slots=True)
class Axis:
    """One logical axis: its size before and after, and the factor by which coordinates are divided."""

    at: int
    size: int
    target: int
    scale: float


@dataclass(frozen=True, slots=True)
class Method:
    """How values between the places are found."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude_outside: bool
    antialias: bool


@lowers("Resize", since=11, T1=FLOATS, T2=FLOATS)
def resize(op: Op) -> Value:
    """By scales or to sizes, along all axes or those that are named."""
    value, method = op.value(0), _method(op)
    axes = [axis for axis in _axes(op, value) if axis.target != axis.size or axis.scale != 1]
    if not axes:
        return value
    native = value.tensor(Layout.CHANNELS_LAST)
    if value.rank == 4 and {axis.at for axis in axes} <= {2, 3} and None not in value.shape[2:]:
        fused = _fused(native, _both(value, axes), method)
        if fused is not None:
            return computed(fused, Layout.CHANNELS_LAST)
    for axis in axes:
        native = _along(native, Layout.CHANNELS_LAST.place(axis.at, value.rank), axis, method)
    return computed(native, Layout.CHANNELS_LAST)


def _method(op: Op) -> Method:
    op.word("keep_aspect_ratio_policy", "stretch", ("stretch",))
    op.ignore("extrapolation_value", because="only tf_crop_and_resize extrapolates, and that is refused")
    op.ignore_input(1, because="only tf_crop_and_resize has a region of interest, and that is refused")
    return Method(
        op.word("mode", "nearest", ("nearest", "linear", "cubic")),
        op.word("coordinate_transformation_mode", "half_pixel", _COORDINATES),
        op.word("nearest_mode", "round_prefer_floor", tuple(_NEAREST)),
        op.real("cubic_coeff_a", -0.75),
        op.flag("exclude_outside"),
        op.flag("antialias"),
    )


def _axes(op: Op, value: Value) -> list[Axis]:
    """The axes that are resized. One whose size the model only passes on is none of them."""
    named = [axis % value.rank for axis in op.ints("axes", range(value.rank))]
    scales, targets = op.optional(2), op.optional(3)
    if targets is not None and targets.shape != (0,):
        if scales is not None and scales.shape != (0,):
            op.refuse("it has both scales and sizes", fix="check the model with onnx.checker")
        return [
            _checked(op, value, at, target, None)
            for at, target in zip(named, op.sizes(3, "sizes"), strict=True)
            if not _passed_on(value, at, target)
        ]
    factors = [float(each) for each in op.array(2, "scales")]
    return [_checked(op, value, at, None, factor) for at, factor in zip(named, factors, strict=True) if factor != 1]


def _passed_on(value: Value, at: int, target: Size) -> bool:
    """Whether an axis only keeps its size: it is the value's own, or the batch got the size of some tensor's axis."""
    if isinstance(target, int):
        return target == value.shape[at]
    return target is value.size(at) or (at == 0 and is_axis_size(target))


def _checked(op: Op, value: Value, at: int, target: Size | None, scale: float | None) -> Axis:
    size = value.shape[at]
    if size is None or not (target is None or isinstance(target, int)):
        op.refuse(f"the size of axis {at} is known only when the model runs", fix="fix that axis when exporting")
    wanted = floor(size * scale) if scale is not None else int(target)  # type: ignore[arg-type]
    return Axis(at, size, wanted, scale if scale is not None else wanted / size)


def _both(value: Value, axes: Sequence[Axis]) -> tuple[Axis, Axis]:
    """Height and width, the one that is not resized too."""
    found = {axis.at: axis for axis in axes}
    sizes = {at: value.shape[at] or 0 for at in (2, 3)}
    high, wide = (found.get(at, Axis(at, sizes[at], sizes[at], 1.0)) for at in (2, 3))
    return high, wide


def _fused(native: TfTensor, axes: tuple[Axis, Axis], method: Method) -> TfTensor | None:
    """TensorFlow's own resize, which TFLite has a kernel for, where it computes the same; else None."""
    target = [axis.target for axis in axes]
    if any(axis.scale != axis.target / axis.size for axis in axes) or method.antialias:
        return None
    whole = all(axis.target % axis.size == 0 for axis in axes)
    if method.mode == "nearest" and whole and _repeats(axes, method):
        return tf.raw_ops.ResizeNearestNeighbor(images=native, size=target)
    if method.mode != "linear" or native.dtype != tf.float32:
        return None
    if method.coordinates == "align_corners" and min(target) > 1:
        return tf.raw_ops.ResizeBilinear(images=native, size=target, align_corners=True)
    half = method.coordinates == "half_pixel" or (method.coordinates == "pytorch_half_pixel" and min(target) > 1)
    if half or method.coordinates == "asymmetric":
        return tf.raw_ops.ResizeBilinear(images=native, size=target, half_pixel_centers=half)
    return None


def _repeats(axes: Sequence[Axis], method: Method) -> bool:
    """Whether each element is only repeated."""
    return all(
        (_nearest(axis, method) == np.repeat(np.arange(axis.size), axis.target // axis.size)).all() for axis in axes
    )


def _along(tensor: TfTensor, place: int, axis: Axis, method: Method) -> TfTensor:
    """One axis: chosen elements, or weighted sums by a product with a matrix."""
    if method.mode == "nearest":
        return tf.gather(tensor, _nearest(axis, method), axis=place)
    matrix = tf.constant(_matrix(axis, method).T, tensor.dtype)
    last = tensor.shape.rank - 1
    order = [at for at in range(last + 1) if at != place] + [place]
    back = [order.index(at) for at in range(last + 1)]
    return tf.transpose(tf.matmul(tf.transpose(tensor, order), matrix), back)


def _coordinates(axis: Axis, method: Method, dtype: type[np.floating[Any]] = np.float64) -> Array:
    """Where each place of the answer lies in the input, by the formulas of the specification."""
    at: Array = np.arange(axis.target, dtype=dtype)
    if method.coordinates == "asymmetric":
        return np.divide(at, dtype(axis.scale))
    if method.coordinates == "align_corners":
        return at * (axis.size - 1) / (axis.target - 1) if axis.target > 1 else at * 0
    if method.coordinates == "pytorch_half_pixel" and axis.target == 1:
        return at * 0 - 0.5 if method.antialias else at * 0
    offset = 0.0
    if method.coordinates == "half_pixel_symmetric":
        offset = axis.size / 2 * (1 - axis.target / (axis.scale * axis.size))
    return np.divide(at + 0.5, dtype(axis.scale)) + (offset - 0.5)


def _nearest(axis: Axis, method: Method) -> Array:
    # In float32, as ONNX Runtime and PyTorch: places that lie just between two elements depend on it.
    rounded: Array = _NEAREST[method.nearest](_coordinates(axis, method, np.float32))
    places: Array = np.clip(rounded, 0, axis.size - 1).astype(np.int32)
    return places


def _kernel(method: Method) -> tuple[float, Callable[[Array], Array]]:
    """The reach of the kernel, and its weight at a distance."""
    if method.mode == "linear":
        return 1.0, lambda z: np.maximum(1 - z, 0)
    a = method.cubic

    def cubic(z: Array) -> Array:
        near = (a + 2) * z**3 - (a + 3) * z**2 + 1
        far = a * z**3 - 5 * a * z**2 + 8 * a * z - 4 * a
        return np.where(z <= 1, near, np.where(z < 2, far, 0))

    return 2.0, cubic


def _matrix(axis: Axis, method: Method) -> Array:
    """(target, size): what of each element goes into each place. Beyond the edge its element counts again, or
    with exclude_outside nothing does, and the rest is scaled up."""
    reach, weigh = _kernel(method)
    shrink = min(axis.scale, 1.0) if method.antialias else 1.0
    steps = int(np.ceil(reach / shrink)) + 1
    centres = _coordinates(axis, method)
    matrix = np.zeros((axis.target, axis.size))
    rows = np.arange(axis.target)
    for step in range(-steps, steps + 1):
        places = np.floor(centres).astype(int) + step
        weights = weigh(np.abs(places - centres) * shrink)
        if method.exclude_outside:
            weights = np.where((places < 0) | (places >= axis.size), 0, weights)
        np.add.at(matrix, (rows, np.clip(places, 0, axis.size - 1)), weights)
    share: Array = matrix / matrix.sum(1, keepdims=True)
    return share
