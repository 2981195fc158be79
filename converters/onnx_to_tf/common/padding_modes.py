"""Padding of tensors with numbers, or with their own elements. Negative widths cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from ..kernels.dialects import Kernels
from ..kernels.tflite_converter_forms import slice_tensor, with_known_sizes
from ..lazy_tensorflow import tf
from ..values import Size, TfTensor, pack_sizes, product, reshape

Widths: TypeAlias = Sequence[tuple[Size, Size]]  # before and after each axis, in the order in which it lies
Mirror: TypeAlias = Callable[[Any, Any, Size], Any]  # numpy or tf, places (negative: before the axis), size -> places


def clip_at_zero(size: Size) -> Size:
    """Return a size, or 0 where it is negative."""
    return max(size, 0) if isinstance(size, int) else tf.maximum(size, 0)


def sizes_of(tensor: TfTensor) -> list[Size]:
    """Return the size of each axis as it lies: an int, or an int32 scalar tensor."""
    shape = tensor.shape.as_list()
    sizes = tf.shape(tensor) if None in shape else shape
    return [sizes[at] if size is None else size for at, size in enumerate(shape)]


def cut_off(tensor: TfTensor, widths: Widths) -> TfTensor:
    """Cut off what negative widths say."""
    if all(isinstance(width, int) and width >= 0 for pair in widths for width in pair):
        return tensor
    result = slice_tensor(
        tensor, [_slice_axis(*width, size) for width, size in zip(widths, sizes_of(tensor), strict=True)]
    )
    if not tf.executing_eagerly():
        inside = [(min(low, 0), min(high, 0)) if _known(low, high) else (low, high) for low, high in widths]
        result.set_shape(_padded_sizes(tensor, inside))
    return result


def _slice_axis(low: Size, high: Size, size: Size) -> slice:
    first = None if isinstance(low, int) and low >= 0 else clip_at_zero(-low)
    if isinstance(high, int):
        return slice(first, high if high < 0 else None)
    return slice(first, size - clip_at_zero(-high))


def pad(tensor: TfTensor, widths: Widths, number: TfTensor | None = None) -> TfTensor:
    """Pad with a scalar, or zeros; negative widths cut. Unpadded neighbours merge beyond the axes that dialects pad."""
    tensor, widths = cut_off(tensor, widths), [(clip_at_zero(low), clip_at_zero(high)) for low, high in widths]
    if len(widths) <= _MOST_AXES:
        return pad_outside(tensor, widths, number)
    sizes = sizes_of(tensor)
    runs = [list(run) for _, run in groupby(range(len(widths)), lambda at: -1 if _is_bare(widths[at]) else at)]
    joined = reshape(tensor, [product([sizes[at] for at in run]) for run in runs])
    padded = pad_outside(joined, [widths[run[0]] for run in runs], number)
    return reshape(padded, [low + size + high for size, (low, high) in zip(sizes, widths, strict=True)])


_MOST_AXES = 5  # of the pads of both dialects


def _is_bare(width: tuple[Size, Size]) -> bool:
    return all(isinstance(end, int) and end == 0 for end in width)


def pad_outside(tensor: TfTensor, widths: Widths, number: TfTensor | None = None) -> TfTensor:
    """Pad as `pad` does, by widths that are never negative."""
    if all(map(_is_bare, widths)):
        return tensor
    flat = [width for pair in widths for width in pair]
    known = _known(*flat)
    paddings = widths if known else tf.reshape(pack_sizes(flat), [len(widths), 2])
    padded = tf.pad(tensor, paddings) if number is None else tf.pad(tensor, paddings, constant_values=number)
    if known or tf.executing_eagerly():
        return padded
    return with_known_sizes(padded, _padded_sizes(tensor, widths))


def _known(*sizes: Size) -> bool:
    return all(isinstance(size, int) for size in sizes)


def _padded_sizes(tensor: TfTensor, widths: Widths) -> list[int | None]:
    """Return the sizes with widths around them, None where one of these is not known."""
    return [
        size + low + high if size is not None and _known(low, high) else None
        for size, (low, high) in zip(tensor.shape.as_list(), widths, strict=True)
    ]


def pad_with_elements(tensor: TfTensor, widths: Widths, mirror: Mirror) -> TfTensor:
    """Pad with the tensor's own elements: of any dtype, as far out as is wanted."""
    tensor = cut_off(tensor, widths)
    for axis, (low, high) in enumerate(widths):
        if isinstance(low, int) and isinstance(high, int) and max(low, high) <= 0:
            continue
        size = sizes_of(tensor)[axis]
        first, last = -clip_at_zero(low), size + clip_at_zero(high)
        known = isinstance(first, int) and isinstance(last, int)
        library: Any = np if known else tf
        places = np.arange(first, last, dtype=np.int32) if known else tf.range(first, last)
        tensor = tf.gather(tensor, mirror(library, places, size), axis=axis)
    return tensor


def edge(library: Any, places: Any, size: Size) -> Any:
    """Map places to the first element before the axis, and to the last one after it."""
    return library.minimum(library.maximum(places, 0), size - 1)


def wrap(library: Any, places: Any, size: Size) -> Any:
    """Map places as if the last element were followed by the first."""
    return places % library.maximum(size, 1)


def reflect(library: Any, places: Any, size: Size) -> Any:
    """Mirror places at the first and the last element, which are not repeated, to and fro as often as it takes."""
    period = library.maximum(2 * size - 2, 1)
    once = places % period
    return library.minimum(once, period - once)


def minus_infinity(kernels: Kernels, tensor: TfTensor) -> TfTensor:
    """Return -inf as a scalar computed from the tensor; a constant could become the lowest number (see Kernels)."""
    return kernels.minus_infinity(tf.cast(tf.reduce_any(tf.not_equal(tensor, tensor)), tensor.dtype))


def insert_zeros(tensor: TfTensor, axis: int, step: int) -> TfTensor:
    """Insert step - 1 zeros between any two elements along an axis; by three axes, which every dialect pads."""
    if step == 1:
        return tensor
    sizes = sizes_of(tensor)
    flat = reshape(tensor, [product(sizes[: axis + 1]), 1, product(sizes[axis + 1 :])])
    wide = tf.pad(flat, [[0, 0], [0, step - 1], [0, 0]])
    wide = reshape(wide, [*sizes[:axis], sizes[axis] * step, *sizes[axis + 1 :]])
    return wide[(*[slice(None)] * axis, slice(None, 1 - step))]
