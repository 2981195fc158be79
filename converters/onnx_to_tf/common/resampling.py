"""Resampling of axes, each by itself: where new places lie in the old axis, and which elements they read.

The formulas are those of ONNX's Resize. What is known while lowering is computed then, by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...onnx_graph.semantics.resampling_attributes import ResizeMethod
from ..kernels.tflite_converter_forms import clip_index
from ..lazy_tensorflow import tf
from ..values import Layout, Size, TfTensor, Value, computed, known, line_along, pack_sizes, product

if TYPE_CHECKING:
    from ..weight_variables import Weights

NEAREST: dict[str, Callable[[TfTensor], TfTensor]] = {
    "floor": lambda x: tf.floor(x),  # noqa: PLW0108  tensorflow is imported when it is called
    "ceil": lambda x: tf.math.ceil(x),  # noqa: PLW0108
    "round_prefer_floor": lambda x: tf.math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: tf.floor(x + 0.5),
}
_NOT_BILINEAR = ("tf_half_pixel_for_nn", "tf_crop_and_resize")  # places that the dialects' kernel has no option for
_REPEATING = ("asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")


@dataclass(frozen=True, slots=True)
class ResampledAxis:
    """One logical axis to resample. Each number is a Python one where it is known, and else a scalar tensor."""

    at: int
    size: Size
    target: Size
    scale: Any  # the divisor of places
    length: Any  # the new length before it is cut to the whole number `target`
    exact: bool  # whether length is target, and scale is target / size
    region: tuple[Any, Any] = (0.0, 1.0)  # start and end of what is cut out, in shares of the axis

    @property
    def known(self) -> bool:
        """Whether all numbers are known while lowering."""
        return all(isinstance(number, int | float) for number in (self.size, self.target, self.scale, *self.region))


def resample_axes(
    value: Value, axes: Sequence[ResampledAxis], method: ResizeMethod, wide: str, weights: Weights
) -> Value:
    """Resample `axes` of a value in the dtype `wide`; integers are rounded, halves to even, the nearest only moved."""
    layout = Layout.CHANNELS_LAST
    if 0 in value.shape or 0 in [axis.target for axis in axes if isinstance(axis.target, int)]:
        return _empty(value, axes)
    native = value.tensor(layout)
    if method.mode != "nearest":
        native = tf.cast(native, wide)
    remaining = list(axes)
    images = [axis for axis in axes if axis.at > 1 and value.rank == 4]
    if len(images) == 2 and all(_has_kernel(axis, method, native) for axis in images):
        native = _resample_image(native, sorted(images, key=lambda axis: axis.at), method)
        remaining = [axis for axis in axes if axis not in images]
    for axis in remaining:
        native = _resample_axis(native, layout.place(axis.at, value.rank), axis, method, weights)
    if native.dtype.name != value.dtype:
        is_integer = tf.as_dtype(value.dtype).is_integer
        native = tf.saturate_cast(tf.round(native), value.dtype) if is_integer else tf.cast(native, value.dtype)
    return computed(native, layout)


def _empty(value: Value, axes: Sequence[ResampledAxis]) -> Value:
    targets = {axis.at: axis.target for axis in axes}
    return computed(tf.zeros(pack_sizes([targets.get(at, value.size(at)) for at in range(value.rank)]), value.dtype))


def _resample_axis(
    native: TfTensor, place: int, axis: ResampledAxis, method: ResizeMethod, weights: Weights
) -> TfTensor:
    """Resample one axis, which lies at `place`."""
    if _has_kernel(axis, method, native):
        return _resample_by_kernel(native, place, axis, method)
    read = _read_tables(axis, method, native.dtype, weights)
    if method.mode == "nearest":
        native = tf.gather(native, read[0], axis=place)
    else:
        native = _by_matrix(native, place, read[0]) if method.antialias else _sum(native, place, read[0], read[1])
    if method.outside is None:
        return native
    return tf.where(line_along(read[-1], place, native.shape.rank), tf.cast(method.outside, native.dtype), native)


# By TensorFlow's kernels


def _has_kernel(axis: ResampledAxis, method: ResizeMethod, native: TfTensor) -> bool:
    if method.mode == "nearest":
        return native.dtype in (tf.float32, tf.int8, tf.uint8) and _repeats(axis, method)
    suits = method.mode == "linear" and not method.antialias and method.coordinates not in _NOT_BILINEAR
    return suits and native.dtype == tf.float32 and axis.exact


def _repeats(axis: ResampledAxis, method: ResizeMethod) -> bool:
    """Return whether each element is only repeated: by an integer factor, and the nearest to all its copies."""
    factor = axis.scale if isinstance(axis.scale, int | float) else 0
    if factor < 1 or factor != int(factor) or method.coordinates not in _REPEATING or not axis.exact:
        return False
    size = axis.size if isinstance(axis.size, int) else 4  # the pattern is equal for every size
    with tf.init_scope():
        sample = ResampledAxis(axis.at, size, size * int(factor), factor, size * int(factor), exact=True)
        index = _nearest(_places(sample, method, tf.float32), method, size).numpy()
    return bool((index == [at // int(factor) for at in range(size * int(factor))]).all())


def _resample_image(native: TfTensor, axes: Sequence[ResampledAxis], method: ResizeMethod) -> TfTensor:
    """Resample both spatial axes of (N, H, W, C)."""
    target = pack_sizes([axis.target for axis in axes])
    if method.mode == "nearest":  # half pixels lie well between the places where the rounding changes
        return tf.raw_ops.ResizeNearestNeighbor(images=native, size=target, half_pixel_centers=True)
    if method.coordinates == "pytorch_half_pixel":
        native = _first_for_one(native, axes)
    corners, asymmetric = method.coordinates == "align_corners", method.coordinates == "asymmetric"
    return tf.raw_ops.ResizeBilinear(
        images=native, size=target, align_corners=corners, half_pixel_centers=not corners and not asymmetric
    )


def _first_for_one(native: TfTensor, axes: Sequence[ResampledAxis]) -> TfTensor:
    """Keep only the first element of an axis that becomes 1 long: there PyTorch's half pixels read it."""
    ends: list[Any] = []
    for axis in axes:
        shrinks = not isinstance(axis.scale, int | float) or axis.scale < 1
        if isinstance(axis.target, int) or not shrinks:
            ends.append(1 if isinstance(axis.target, int) and axis.target == 1 and axis.size != 1 else None)
        else:
            ends.append(tf.where(tf.equal(axis.target, 1), 1, axis.size))
    return native if ends == [None, None] else native[:, : ends[0], : ends[1]]


def _resample_by_kernel(native: TfTensor, place: int, axis: ResampledAxis, method: ResizeMethod) -> TfTensor:
    """Resample one axis of a tensor of any rank, as the height of an image; its width is what lies inside of it."""
    sizes = [size if size is not None else tf.shape(native)[at] for at, size in enumerate(native.shape.as_list())]
    inner = sizes[place + 1 :]
    outer, middle, depth = product(sizes[:place]), product(inner[:-1]), inner[-1] if inner else 1
    image = tf.reshape(native, pack_sizes([outer, axis.size, middle, depth]))
    passed_on = ResampledAxis(axis.at, middle, middle, 1.0, middle, exact=True)
    image_result = _resample_image(image, [axis, passed_on], method)
    return tf.reshape(image_result, pack_sizes([*sizes[:place], axis.target, *inner]))


# By the elements that each place reads


def _read_tables(axis: ResampledAxis, method: ResizeMethod, dtype: Any, weights: Weights) -> list[TfTensor]:
    """Return what each new place reads, and last, whether it lies outside.

    For the nearest its index (target,); with antialias a matrix (target, size); and else the indices of its elements
    and their shares, both (target, elements). If all of it is known it is computed now, in float64 but for the nearest.
    """

    def tables(wide: Any) -> list[TfTensor]:
        places = _places(axis, method, wide)
        outside = (places < 0) | (places > _real(axis.size, wide) - 1)
        if method.mode == "nearest":
            return [_nearest(places, method, axis.size), outside]
        index, shares = _taps(places, axis, method)
        if method.antialias:
            return [tf.cast(_matrix(index, shares, axis.size), dtype), outside]
        return [index, tf.cast(shares, dtype), outside]

    if not axis.known:
        return tables(tf.float32 if method.mode == "nearest" else dtype)
    with tf.init_scope():
        arrays = [array.numpy() for array in tables(tf.float32 if method.mode == "nearest" else tf.float64)]
    return [known(array, weights).tensor() for array in arrays]


def _real(number: Any, dtype: Any) -> TfTensor:
    return tf.constant(number, dtype) if isinstance(number, int | float) else tf.cast(number, dtype)


def _places(axis: ResampledAxis, method: ResizeMethod, dtype: Any) -> TfTensor:
    """Return where new places lie in the old axis; the nearest in float32 like ONNX Runtime, PyTorch: ties matter."""
    at = tf.cast(tf.range(axis.target), dtype)
    size, target, scale, length = (_real(number, dtype) for number in (axis.size, axis.target, axis.scale, axis.length))
    steps = tf.where(tf.equal(length, 1), tf.ones_like(length), length - 1)
    if method.coordinates == "align_corners":
        return at * (size - 1) / steps
    if method.coordinates == "tf_crop_and_resize":
        start, end = (_real(number, dtype) for number in axis.region)
        middle = (start + end) / 2 * (size - 1)
        return tf.where(tf.equal(length, 1), middle, start * (size - 1) + at * (end - start) * (size - 1) / steps)
    if method.coordinates == "asymmetric":
        return at / scale
    if method.coordinates == "tf_half_pixel_for_nn":
        return (at + 0.5) / scale
    half = (at + 0.5) / scale - 0.5
    if method.coordinates == "pytorch_half_pixel":
        return tf.where(tf.equal(target, 1), tf.constant(-0.5 if method.antialias else 0.0, dtype), half)
    return half + size / 2 * (1 - target / length) if method.coordinates == "half_pixel_symmetric" else half


def _nearest(places: TfTensor, method: ResizeMethod, size: Size) -> TfTensor:
    return clip_index(tf.cast(NEAREST[method.rounding](places), tf.int32), size)


def _taps(places: TfTensor, axis: ResampledAxis, method: ResizeMethod) -> tuple[TfTensor, TfTensor]:
    """Return elements and shares.

    Beyond the edge its element counts again; with exclude_outside nothing does, and the rest is scaled up. Antialias
    stretches the filter where the axis shrinks.
    """
    linear = method.mode == "linear"
    reach = 1 if linear else 2
    shrink = tf.minimum(_real(axis.scale, places.dtype), 1) if method.antialias else tf.ones([], places.dtype)
    steps = tf.cast(tf.math.ceil(reach / shrink), tf.int32) if method.antialias else reach
    around = tf.cast(tf.range(1 - steps, steps + 1), places.dtype)
    index = tf.floor(places)[:, None] + around
    distance = tf.abs(index - places[:, None]) * shrink
    weights = tf.maximum(1 - distance, 0) if linear else _cubic(distance, method.cubic)
    if method.exclude_outside:
        weights = tf.where((index < 0) | (index > _real(axis.size, index.dtype) - 1), tf.zeros_like(weights), weights)
    total = tf.reduce_sum(weights, 1, keepdims=True)
    shares = weights / tf.where(tf.equal(total, 0), tf.ones_like(total), total)
    return clip_index(tf.cast(index, tf.int32), axis.size), shares


def _cubic(z: TfTensor, a: float) -> TfTensor:
    near = ((a + 2) * z - (a + 3)) * z * z + 1
    far = ((a * z - 5 * a) * z + 8 * a) * z - 4 * a
    return tf.where(z <= 1, near, tf.where(z < 2, far, tf.zeros_like(z)))


def _sum(native: TfTensor, place: int, index: TfTensor, shares: TfTensor) -> TfTensor:
    """Return the weighted sum of a few elements."""
    return sum(
        tf.gather(native, index[:, tap], axis=place) * line_along(shares[:, tap], place, native.shape.rank)
        for tap in range(index.shape[1])
    )


def _matrix(index: TfTensor, shares: TfTensor, size: Size) -> TfTensor:
    """Return the share of each element in each new place: (target, size)."""
    return tf.reduce_sum(tf.one_hot(index, size, dtype=shares.dtype) * tf.expand_dims(shares, -1), 1)


def _by_matrix(native: TfTensor, place: int, matrix: TfTensor) -> TfTensor:
    """Return the weighted sum of many elements, as a product."""
    last = native.shape.rank - 1
    order = [at for at in range(last + 1) if at != place] + [place]
    back = [order.index(at) for at in range(last + 1)]
    return tf.transpose(tf.matmul(tf.transpose(native, order), matrix, transpose_b=True), back)
