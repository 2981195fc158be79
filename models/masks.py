"""Masks that hide all, or nothing: of random ones no row is so by chance. Needs numpy only.

What is told of such a row is what an attention, a mean or a maximum over nothing gives, and there copies differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from .dataset import Dataset
from .signature import Array, TensorSpec
from .zoo.build import is_told


class Fill(StrEnum):
    """What a mask holds in place of random numbers: one and the same, in all of a call or in some of its rows."""

    NONE = "none"
    ALL = "all"
    SOME_NONE = "some none"
    SOME_ALL = "some all"

    @property
    def in_rows(self) -> bool:
        """Whether it fills single rows along the last axis."""
        return self in (Fill.SOME_NONE, Fill.SOME_ALL)

    @property
    def holds(self) -> bool:
        """What it fills with."""
        return self in (Fill.ALL, Fill.SOME_ALL)

    def told(self, *, boolean: bool) -> str:
        """How a sentence names it: all false in single rows."""
        return f"all {str(self.holds).lower() if boolean else int(self.holds)}{' in single rows' * self.in_rows}"


def masks(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The inputs that hold true and false, or 0 and 1 as their names tell."""
    return tuple(spec for spec in specs if spec.dtype == "bool" or is_told(spec.name))


def with_fills(data: Dataset, fills: Mapping[str, Fill], call: int) -> Dataset:
    """The samples with the masks named filled. `call`: samples in one. Every second call keeps whole what it has: where
    a mask hides all, answers are often 0, and the noise beside 0 is none beside those."""
    filled = {name: _filled(data.inputs[name], fill, call) for name, fill in fills.items()}
    return Dataset({**data.inputs, **filled}, data.labels)


def _filled(mask: Array, fill: Fill, call: int) -> Array:
    chosen = np.arange(len(mask)) // call % 2 == 0
    if fill.in_rows:
        chosen = np.arange(math.prod(mask.shape[:-1])).reshape(mask.shape[:-1]) % 3 == 0
    return np.where(chosen.reshape(chosen.shape + (1,) * (mask.ndim - chosen.ndim)), mask.dtype.type(fill.holds), mask)
