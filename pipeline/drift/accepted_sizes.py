"""Which sizes a model takes that refuses those of random samples: found by asking it, and told as what to give.

A file gives its axes no names, so that two of them are one is not known. Samples are small, and each axis has another
size in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from ...models.signature import Axis, TensorSpec, bounds_of

_MOST_AXES, _MOST_WAYS = 8, 100  # eight axes may be taken for one another in 4,140 ways
_LARGER = (16, 32, 64, 128, 256)
_MOST_ELEMENTS = 2**24  # of an input

Takes = Callable[[Mapping[str, int]], bool]


def sizes_fix(inputs: Sequence[TensorSpec], own: Mapping[str, int], takes: Takes) -> str:
    """What helps where a model does not take its samples, whose axes are as large as `own` says: as many sizes as it
    lets differ, else larger ones. `takes`: whether it answers where the axes have such sizes."""
    ways = _ways_of_one(list(own)) if len(own) <= _MOST_AXES else iter(())
    for same in islice(ways, _MOST_WAYS):
        if takes({axis: own[first] for axis, first in same.items()}):
            return f"give axes that are of one size one name, as in {_told(inputs, same)}"
    larger = (size for size in _LARGER if _elements(inputs, size) <= _MOST_ELEMENTS)
    least = next((size for size in larger if own and takes(dict.fromkeys(own, size))), None)
    sizes = "32..256" if least is None else f"{least}.."
    told = _told(inputs, {axis: f"{axis}={sizes}" for axis in own})
    return f"give the sizes that it takes, as in {told}, or --data FILE.npz" if own else "give --data FILE.npz"


def _ways_of_one(axes: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """The ways in which some axes may be one, each as the first axis of each; those with most sizes first."""
    ways: list[dict[str, str]] = [{}]
    for axis in axes:
        ways = [{**way, axis: first} for way in ways for first in (*dict.fromkeys(way.values()), axis)]
    sizes = [len(set(way.values())) for way in ways]
    for wanted in range(len(axes) - 1, 0, -1):
        yield from (way for way, found in zip(ways, sizes, strict=True) if found == wanted)


def _elements(inputs: Sequence[TensorSpec], size: int) -> int:
    return max(math.prod(size if isinstance(axis, str) else axis for axis in spec.shape) for spec in inputs)


def _told(inputs: Sequence[TensorSpec], axes: Mapping[str, str]) -> str:
    """The inputs as they are given, with other words for some of their axes."""
    bounds = bounds_of(inputs)

    def word(axis: Axis) -> str:
        said = axes.get(axis, axis) if isinstance(axis, str) else str(axis)
        return f"{said}={bounds[said]}" if said in bounds else said

    return " ".join(f"--input {spec.name}={spec.dtype}[{','.join(map(word, spec.shape))}]" for spec in inputs)
