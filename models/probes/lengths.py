"""Inputs that say how long other inputs are: what their integers may be is told by their name. Needs numpy only."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from ..signature import TensorSpec

_NAMES = re.compile(r"(^|_)(seq)?_?(lengths?|lens?)$")
_UNKNOWN = 3  # where nothing tells what is measured: what any other integer of a sample is at most


def is_length(spec: TensorSpec) -> bool:
    """Whether the integers of an input are lengths: `lengths`, `token_len`."""
    return np.dtype(spec.dtype).kind in "iu" and _NAMES.search(spec.name) is not None


def longest(spec: TensorSpec, specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> int:
    """How long what an input of lengths measures is: the least size of the others' dynamic axes that it does not have
    itself, else of the first axis of each that it does not have. 0 where that is empty."""
    others = [[axis for axis in other.shape if axis not in spec.shape] for other in specs if other is not spec]
    named = [sizes[axis] for axes in others for axis in axes if isinstance(axis, str) and axis in sizes]
    fixed = [axes[0] for axes in others if axes and isinstance(axes[0], int)]
    return min(named or fixed, default=_UNKNOWN)
