"""Forms of slices, pads and index bounds that TFLite's converter carries as they are.

Both dialects use them: to TensorFlow they cost nothing, and a SavedModel may be converted later.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lazy_tensorflow import tf
from ..values import Size, TfTensor, reshape

_FULL = (slice(None), slice(None, None, 1))


def slice_tensor(tensor: TfTensor, cut: Sequence[slice]) -> TfTensor:
    """Slice a tensor along each axis, as it lies.

    Where a start or an end is computed, the converter forgets the sizes of all axes that the same slice cuts by
    numbers: those are cut before.
    """
    if not any(is_computed(part) for part in cut):
        return tensor[tuple(cut)]
    now = [slice(None) if is_computed(part) else part for part in cut]
    if any(part not in _FULL for part in now):
        tensor = tensor[tuple(now)]
    return tensor[tuple(part if is_computed(part) else slice(None) for part in cut)]


def is_computed(part: slice) -> bool:
    """Return whether the start or the end of a slice is known only when the model runs."""
    return not all(end is None or isinstance(end, int) for end in (part.start, part.stop))


def with_known_sizes(tensor: TfTensor, sizes: Sequence[int | None]) -> TfTensor:
    """Reshape a tensor to the sizes of which some are known: the converter forgets them if only the shape has them."""
    return reshape(tensor, [tf.shape(tensor)[at] if size is None else size for at, size in enumerate(sizes)])


def clip_index(index: TfTensor, size: Size) -> TfTensor:
    """Cut indices to an axis of `size`, int32.

    Not by tf.clip_by_value: the converter fuses the bounds 0 and 1 or 0 and 6 into an activation, of integers too.
    """
    return tf.minimum(tf.where(index < 0, tf.zeros_like(index), index), size - 1)
