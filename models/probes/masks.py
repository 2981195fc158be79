"""Masks that hide all, or nothing, and floats that are all zero: of random ones no row is so by chance. Needs numpy
only.

What is told of a masked row is what an attention, a mean or a maximum over nothing gives, and there copies differ. Of
silence, padding and black pictures it is what stands beside a zero to divide by: `x / (norm + 1e-8)`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from ..dataset import Dataset
from ..loading.build import is_told
from ..signature import Array, TensorSpec


class Fill(StrEnum):
    """What an input holds in place of random numbers: one and the same, in all of a call or in some of its rows."""

    NONE = "none"
    ALL = "all"
    SOME_NONE = "some none"
    SOME_ALL = "some all"
    BLANK = "blank"  # of floats: in one call all, in the next some rows

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
        if self is Fill.BLANK:
            return "all 0, or 0 in single rows"
        return f"all {str(self.holds).lower() if boolean else int(self.holds)}{' in single rows' * self.in_rows}"


def masks(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The inputs that hold true and false, or 0 and 1 as their names tell."""
    return tuple(spec for spec in specs if spec.dtype == "bool" or is_told(spec.name))


def blanks(specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The inputs that may be blank."""
    return tuple(spec for spec in specs if "float" in spec.dtype and not is_told(spec.name))


def with_fills(data: Dataset, fills: Mapping[str, Fill], call: int) -> Dataset:
    """The samples with the inputs named filled. `call`: samples in one. Every second call keeps what it has, or most of
    it: where a mask hides all, answers are often 0, and the noise beside 0 is none beside those."""
    filled = {name: _filled(data.inputs[name], fill, call) for name, fill in fills.items()}
    return Dataset({**data.inputs, **filled}, data.labels)


def _filled(mask: Array, fill: Fill, call: int) -> Array:
    whole = _beside(np.arange(len(mask)) // call % 2 == 0, mask)
    rows = mask.shape[: max(1, mask.ndim - 1)]
    third = _beside(np.arange(math.prod(rows)).reshape(rows) % 3 == 0, mask)
    chosen = whole | third if fill is Fill.BLANK else third if fill.in_rows else whole
    return np.where(chosen, mask.dtype.type(fill.holds), mask)


def _beside(chosen: Array, mask: Array) -> Array:
    """With as many axes as the mask."""
    return chosen.reshape(chosen.shape + (1,) * (mask.ndim - chosen.ndim))
