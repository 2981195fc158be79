"""Slices whose elements need not be there, for TFLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..lazy_tensorflow import tf
from ..values import FAR, Size, TfTensor
from .converter_safe import slice_tensor

_NOTHING = slice(FAR, FAR, 1)  # an end of 0 is to XNNPACK the end of the axis


def slice_left_open(tensor: TfTensor, cut: Sequence[slice], size_of: Callable[[int], Size]) -> TfTensor:
    """Slice a tensor so that the converter makes no slice of a known number of elements.

    It makes one where every start and every end is a number. The elements of such a slice must be there, and of
    TFLite's kernels only XNNPACK's accepts that they are not. `size_of` returns the size at a place.
    """
    cut = [_NOTHING if isinstance(part.stop, int) and part.stop == 0 and part.step > 0 else part for part in cut]
    if all(isinstance(part.start, int) and isinstance(part.stop, int) and part.stop > 0 for part in cut):
        for place in (place for place, size in enumerate(tensor.shape.as_list()) if size is None):
            end = tf.minimum(cut[place].stop, size_of(place))
            opened = slice(cut[place].start, end, cut[place].step)
            return slice_tensor(tensor, [*cut[:place], opened, *cut[place + 1 :]])
    return slice_tensor(tensor, cut)
