"""Sizes of dynamic axes that are far from those of an example, as large as there is room for in a call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..signature import TensorSpec
from .sizes import bounds_within, empty_axes, example_sizes

_BATCH = 2
_SMALL = 2  # a size of 1 takes part in broadcasting, which hides what goes wrong
_LARGE = (65, 257)  # sizes that none of the checks has
_LARGEST = (1025, 513, 257, 129)  # of one axis where the others are small: the first that there is room for
_TOGETHER = (65, 33, 17)  # of all axes at once, likewise
_MOST_ELEMENTS = 100_000  # of the inputs of such a call


def most_elements(specs: Sequence[TensorSpec]) -> int:
    """Return how many elements the inputs of a call at other sizes may have: no fewer than an example has."""
    return max(_MOST_ELEMENTS, count_elements(specs, example_sizes(specs, _BATCH)))


def count_elements(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> int:
    """Count the elements of the inputs at these sizes of their dynamic axes."""
    return sum(math.prod(spec.sized(sizes)) for spec in specs)


def least_sizes(specs: Sequence[TensorSpec], small: int = _SMALL) -> dict[str, int]:
    """Return every dynamic axis as near to a small size as its bounds allow."""
    return _within_bounds(specs, dict.fromkeys(example_sizes(specs, _BATCH), small))


def far_sizes(specs: Sequence[TensorSpec]) -> list[dict[str, int]]:
    """List the far sizes to try a program at.
    Each dynamic axis is large, beside the others as in an example and then as small as they may be: a relation between
    two breaks at one of them alone. Then all are large at once, and each is empty where it may be."""
    own, least, most = example_sizes(specs, _BATCH), least_sizes(specs), most_elements(specs)
    points: list[dict[str, int]] = []
    for axis in own:
        points += _with_room(specs, ({**own, axis: size} for size in _LARGE), _MOST_ELEMENTS)
        points += list(_with_room(specs, ({**least, axis: size} for size in _LARGEST), most))[:1]
    if len(own) > 1:
        together = ({axis: size + place for place, axis in enumerate(own)} for size in _TOGETHER)
        points += list(_with_room(specs, together, most))[:1]
    points += [{**own, axis: 0} for axis in empty_axes(specs)]
    return [point for at, point in enumerate(points) if point != own and point not in points[:at]]


def _with_room(specs: Sequence[TensorSpec], points: Iterable[Mapping[str, int]], most: int) -> Iterator[dict[str, int]]:
    within = (_within_bounds(specs, point) for point in points)
    return (point for point in within if count_elements(specs, point) <= most)


def _within_bounds(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> dict[str, int]:
    return {axis: bounds_within(specs, axis).nearest(size) for axis, size in sizes.items()}
