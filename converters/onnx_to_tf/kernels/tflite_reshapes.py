"""Reshapes that TensorFlow 2.21's TFLite converter drops.

It drops two transposes and a reshape between them where the types before and after look alike, except for one axis of
size 1 before all others. Sizes that are not known look alike, and so do equal ones; a chain of reshapes is one to it.
Both dialects guard against it in values.reshape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, TypeAlias

from ..lazy_tensorflow import tf

TfTensor: TypeAlias = Any  # tensorflow has no types

_TRANSPOSED = {"float32", "int32", "int64", "bool"}  # the dtypes that TFLite both transposes and gathers
_OF_SHAPE = {"Reshape", "Squeeze", "ExpandDims", "Identity"}  # operators that leave the elements in order


def find_tensor_of_shape(tensor: TfTensor, target: Sequence[object]) -> TfTensor | None:
    """Return the tensor, or what it was reshaped from, where that is known to have the target's shape; else None.

    It is known where all sizes but one are, and the number of elements determines that one.
    """
    wanted = _static(target)
    for before in _reshaped_from(tensor):
        pairs = list(zip(before.shape.as_list(), wanted, strict=False))
        known = [size for size, wanted_size in pairs if size == wanted_size is not None]
        open_sizes = wanted.count(None)
        telling = open_sizes == 0 or (open_sizes == 1 and prod(known) > 0)
        if before.shape.rank == len(wanted) == len(known) + open_sizes and telling:
            return before
    return None


def looks_like_none(tensor: TfTensor, target: Sequence[object]) -> bool:
    """Return whether the converter may take a reshape for none."""
    if len(target) < 2 or tf.executing_eagerly() or tensor.dtype.name not in _TRANSPOSED:
        return False
    wanted = _static(target)
    return any(before.shape.as_list() in (wanted, [1, *wanted]) for before in _reshaped_from(tensor))


def _reshaped_from(tensor: TfTensor) -> Iterator[TfTensor]:
    """Yield the tensor, and each one before it that holds the same elements in the same order."""
    while tensor.shape.rank is not None:
        yield tensor
        if tf.executing_eagerly() or tensor.op.type not in _OF_SHAPE:
            return
        tensor = tensor.op.inputs[0]


def _static(target: Sequence[object]) -> list[int | None]:
    """Return the sizes, None where they are not known; -1 is not known."""
    return [size if isinstance(size, int) and size >= 0 else None for size in target]
