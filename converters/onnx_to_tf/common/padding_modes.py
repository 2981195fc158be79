"""What lies around a tensor: numbers, or its own elements once more. Negative widths cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np

from ..kernels import Kernels
from ..lazy_tensorflow import tf
from ..values import Size, TfTensor, pack, product, reshape

Widths: TypeAlias = Sequence[tuple[Size, Size]]  # before and after each axis, in the order in which it lies
Mirror: TypeAlias = Callable[[Any, Any, Size], Any]  # numpy or tf, places (negative ones lie before), size -> places


def positive(size: Size) -> Size:
    """A size, or 0 where it is negative."""
    return max(size, 0) if isinstance(size, int) else tf.maximum(size, 0)


def sizes_of(tensor: TfTensor) -> list[Size]:
    """The size of each axis as it lies: an int, or an int32 scalar tensor."""
    shape = tensor.shape.as_list()
    found = tf.shape(tensor) if None in shape else shape
    return [found[at] if size is None else size for at, size in enumerate(shape)]


def cut(tensor: TfTensor, widths: Widths) -> TfTensor:
    """What negative widths take away."""
    if all(isinstance(each, int) and each >= 0 for pair in widths for each in pair):
        return tensor
    made = sliced(tensor, [_slice(*each, size) for each, size in zip(widths, sizes_of(tensor), strict=True)])
    if not tf.executing_eagerly():
        inside = [(min(low, 0), min(high, 0)) if _known(low, high) else (low, high) for low, high in widths]
        made.set_shape(_grown(tensor, inside))
    return made


def _slice(low: Size, high: Size, size: Size) -> slice:
    first = None if isinstance(low, int) and low >= 0 else positive(-low)
    if isinstance(high, int):
        return slice(first, high if high < 0 else None)
    return slice(first, size - positive(-high))


def sliced(tensor: TfTensor, cut: Sequence[slice]) -> TfTensor:
    """The parts of a tensor along each axis, as it lies. Where a start or an end is computed, TFLite's converter
    forgets the sizes of all axes that the same slice cuts by numbers: those are cut before."""
    if not any(computes(part) for part in cut):
        return tensor[tuple(cut)]
    now = [slice(None) if computes(part) else part for part in cut]
    if any(part not in _WHOLE for part in now):
        tensor = tensor[tuple(now)]
    return tensor[tuple(part if computes(part) else slice(None) for part in cut)]


_WHOLE = (slice(None), slice(None, None, 1))


def computes(part: slice) -> bool:
    """Whether its start or its end is known only when the model runs."""
    return not all(each is None or isinstance(each, int) for each in (part.start, part.stop))


def pad(tensor: TfTensor, widths: Widths, number: TfTensor | None = None) -> TfTensor:
    """With a scalar of the tensor's dtype around it, or zeros; negative widths cut. Of more axes than TFLite can pad,
    neighbours with nothing around them are one meanwhile."""
    tensor, widths = cut(tensor, widths), [(positive(low), positive(high)) for low, high in widths]
    if len(widths) <= _MOST_AXES:
        return surrounded(tensor, widths, number)
    sizes = sizes_of(tensor)
    runs = [list(run) for _, run in groupby(range(len(widths)), lambda at: -1 if _is_bare(widths[at]) else at)]
    joined = reshape(tensor, [product([sizes[at] for at in run]) for run in runs])
    made = surrounded(joined, [widths[run[0]] for run in runs], number)
    return reshape(made, [low + size + high for size, (low, high) in zip(sizes, widths, strict=True)])


_MOST_AXES = 5


def _is_bare(width: tuple[Size, Size]) -> bool:
    return all(isinstance(each, int) and each == 0 for each in width)


def surrounded(tensor: TfTensor, widths: Widths, number: TfTensor | None = None) -> TfTensor:
    """As `pad`, of widths that are never negative."""
    if all(map(_is_bare, widths)):
        return tensor
    flat = [each for pair in widths for each in pair]
    known = _known(*flat)
    paddings = widths if known else tf.reshape(pack(flat), [len(widths), 2])
    made = tf.pad(tensor, paddings) if number is None else tf.pad(tensor, paddings, constant_values=number)
    if known or tf.executing_eagerly():
        return made
    # TFLite's converter forgets the sizes that are known all the same, if only the shape says so.
    sizes = _grown(tensor, widths)
    return reshape(made, [tf.shape(made)[at] if size is None else size for at, size in enumerate(sizes)])


def _known(*sizes: Size) -> bool:
    return all(isinstance(each, int) for each in sizes)


def _grown(tensor: TfTensor, widths: Widths) -> list[int | None]:
    """The sizes with widths around them, where both are known."""
    return [
        size + low + high if size is not None and _known(low, high) else None
        for size, (low, high) in zip(tensor.shape.as_list(), widths, strict=True)
    ]


def mirrored(tensor: TfTensor, widths: Widths, mirror: Mirror) -> TfTensor:
    """With its own elements around it: of any dtype, as far out as is wanted."""
    tensor = cut(tensor, widths)
    for axis, (low, high) in enumerate(widths):
        if isinstance(low, int) and isinstance(high, int) and max(low, high) <= 0:
            continue
        size = sizes_of(tensor)[axis]
        first, last = -positive(low), size + positive(high)
        known = isinstance(first, int) and isinstance(last, int)
        library: Any = np if known else tf
        places = np.arange(first, last, dtype=np.int32) if known else tf.range(first, last)
        tensor = tf.gather(tensor, mirror(library, places, size), axis=axis)
    return tensor


def edge(library: Any, places: Any, size: Size) -> Any:
    """The first element before, the last one after."""
    return library.minimum(library.maximum(places, 0), size - 1)


def wrap(library: Any, places: Any, size: Size) -> Any:
    """As if the last element were followed by the first."""
    return places % library.maximum(size, 1)


def reflect(library: Any, places: Any, size: Size) -> Any:
    """Mirrored at the first and the last element, which are not repeated, to and fro as often as it takes."""
    period = library.maximum(2 * size - 2, 1)
    once = places % period
    return library.minimum(once, period - once)


def minus_infinity(kernels: Kernels, tensor: TfTensor) -> TfTensor:
    """A scalar of the tensor's dtype that is computed from it: of a constant TFLite's converter makes the lowest
    finite number, which is smaller than nothing that may lie beside it."""
    return kernels.minus_infinity(tf.cast(tf.reduce_any(tf.not_equal(tensor, tensor)), tensor.dtype))


def spread(tensor: TfTensor, axis: int, step: int) -> TfTensor:
    """With step - 1 zeros between any two elements along an axis; three axes at a time, which TFLite can pad."""
    if step == 1:
        return tensor
    sizes = sizes_of(tensor)
    flat = reshape(tensor, [product(sizes[: axis + 1]), 1, product(sizes[axis + 1 :])])
    wide = tf.pad(flat, [[0, 0], [0, step - 1], [0, 0]])
    wide = reshape(wide, [*sizes[:axis], sizes[axis] * step, *sizes[axis + 1 :]])
    return wide[(*[slice(None)] * axis, slice(None, 1 - step))]
