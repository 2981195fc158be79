"""Search for sizes that a model takes where it refuses those of random samples, for the hint in the error.

A file gives its axes no names, so it does not say that two of them are one. Samples are small, and each axis has
another size in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from ..signature import Axis, TensorSpec, bounds_of

_MOST_AXES, _MOST_WAYS = 8, 100  # eight axes may be taken for one another in 4,140 ways
_LARGER = (16, 32, 64, 128, 256)
_MOST_ELEMENTS = 2**24  # of an input

AcceptsSizes: TypeAlias = Callable[[Mapping[str, int]], bool]


def suggest_sizes(inputs: Sequence[TensorSpec], own: Mapping[str, int], accepts: AcceptsSizes) -> str:
    """Say what helps where a model does not take samples of the axis sizes `own`.
    That is as many different sizes as the model allows, else larger ones. `accepts`: whether it answers at such sizes.
    """
    merges = _merged_axes(list(own)) if len(own) <= _MOST_AXES else iter(())
    for firsts in islice(merges, _MOST_WAYS):
        if accepts({axis: own[first] for axis, first in firsts.items()}):
            return f"give axes that are of one size one name, as in {_input_options(inputs, firsts)}"
    larger = (size for size in _LARGER if _most_elements(inputs, size) <= _MOST_ELEMENTS)
    least = next((size for size in larger if own and accepts(dict.fromkeys(own, size))), None)
    sizes = "32..256" if least is None else f"{least}.."
    options = _input_options(inputs, {axis: f"{axis}={sizes}" for axis in own})
    return f"give the sizes that it takes, as in {options}, or --data FILE.npz" if own else "give --data FILE.npz"


def suggest_values(inputs: Sequence[TensorSpec], name: str | None = None) -> str:
    """Say how the values of an input are declared: of the one called `name`, else of the first."""
    spec = replace(next((spec for spec in inputs if spec.name == name), inputs[0]), values=None)
    return f"say which values it takes, as in --input '{spec} in 0..9', or give samples of yours: --data FILE.npz"


def _merged_axes(axes: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield the ways in which some axes may be one: each axis with the first that it equals, most sizes first."""
    merges: list[dict[str, str]] = [{}]
    for axis in axes:
        merges = [{**merge, axis: first} for merge in merges for first in (*dict.fromkeys(merge.values()), axis)]
    counts = [len(set(merge.values())) for merge in merges]
    for wanted in range(len(axes) - 1, 0, -1):
        yield from (merge for merge, count in zip(merges, counts, strict=True) if count == wanted)


def _most_elements(inputs: Sequence[TensorSpec], size: int) -> int:
    return max(math.prod(size if isinstance(axis, str) else axis for axis in spec.shape) for spec in inputs)


def _input_options(inputs: Sequence[TensorSpec], axes: Mapping[str, str]) -> str:
    """Write the inputs as options of the command line, with other words for some of their axes."""
    bounds = bounds_of(inputs)

    def axis_text(axis: Axis) -> str:
        word = axes.get(axis, axis) if isinstance(axis, str) else str(axis)
        return f"{word}={bounds[word]}" if word in bounds else word

    resized = {spec: f"{spec.name}={spec.dtype}[{','.join(map(axis_text, spec.shape))}]" for spec in inputs}
    return " ".join(
        f"--input '{text} in {spec.values}'" if spec.values else f"--input {text}" for spec, text in resized.items()
    )
