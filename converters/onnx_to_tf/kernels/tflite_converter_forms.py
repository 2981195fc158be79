"""Forms of slices, pads, channels and index bounds that TFLite's converter carries as they are.

Both dialects use them: to TensorFlow they cost nothing, and a SavedModel may be converted to TFLite later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..lazy_tensorflow import tf
from ..values import FAR, Size, TfTensor, pack_sizes, reshape

_FULL = (slice(None), slice(None, None, 1))
_NOTHING = slice(FAR, FAR, 1)  # an end of 0 is to XNNPACK the end of the axis


def slice_tensor(tensor: TfTensor, cut: Sequence[slice]) -> TfTensor:
    """Slice as it lies, by numbers first: beside a computed end the converter forgets the sizes that they cut."""
    if not any(is_computed(part) for part in cut):
        return tensor[tuple(cut)]
    now = [slice(None) if is_computed(part) else part for part in cut]
    if any(part not in _FULL for part in now):
        tensor = tensor[tuple(now)]
    return tensor[tuple(part if is_computed(part) else slice(None) for part in cut)]


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


def is_computed(part: slice) -> bool:
    """Return whether the start or the end of a slice is known only when the model runs."""
    return not all(end is None or isinstance(end, int) for end in (part.start, part.stop))


def with_known_sizes(tensor: TfTensor, sizes: Sequence[int | None]) -> TfTensor:
    """Reshape a tensor to the sizes of which some are known: the converter forgets them if only the shape has them."""
    return reshape(tensor, [tf.shape(tensor)[at] if size is None else size for at, size in enumerate(sizes)])


def with_channels(tensor: TfTensor, channels: int) -> TfTensor:
    """Return a tensor, channels last, with as many channels as its weight has.

    It is reshaped, and not only said to have that shape: the converter works out shapes anew, and has no convolution of
    channels whose number it does not find.
    """
    if tensor.shape[-1] is not None:
        return tensor
    shape = tf.shape(tensor)
    return tf.reshape(tensor, pack_sizes([*(shape[at] for at in range(tensor.shape.rank - 1)), channels]))


def clip_index(index: TfTensor, size: Size) -> TfTensor:
    """Cut int32 indices to an axis; of clip_by_value the converter makes a ReLU1 or ReLU6, of integers too."""
    return tf.minimum(tf.where(index < 0, tf.zeros_like(index), index), size - 1)
