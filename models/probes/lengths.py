"""Inputs that say how long other inputs are: their name tells what their integers may be."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from ..signature import TensorSpec

_NAMES = re.compile(r"(^|_)(seq)?_?(lengths?|lens?)$")
_UNKNOWN = 3  # where nothing tells what is measured: the most that any other integer of a random sample is


def is_length(spec: TensorSpec) -> bool:
    """Return whether the integers of an input are lengths, as those of `lengths` and `token_len` are."""
    return np.dtype(spec.dtype).kind in "iu" and _NAMES.search(spec.name) is not None


def max_length(spec: TensorSpec, specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> int:
    """Return the size of what an input of lengths measures; 0 where that is empty.
    It measures the dynamic axes of the other inputs that it does not have itself, and the least of them counts. Where
    there is none, it measures the first axis of each other input, where it does not have that."""
    unshared = [[axis for axis in other.shape if axis not in spec.shape] for other in specs if other is not spec]
    dynamic = [sizes[axis] for axes in unshared for axis in axes if isinstance(axis, str) and axis in sizes]
    fixed = [axes[0] for axes in unshared if axes and isinstance(axes[0], int)]
    return min(dynamic or fixed, default=_UNKNOWN)
