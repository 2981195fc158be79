"""Search for sizes that a model takes where it refuses those that it was called at.

A file gives its axes no names, so it does not say that two of them are one. Samples are small, and each axis has
another size in them. A network that halves its input and puts the halves together again takes multiples alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from ..signature import ANY_SIZE, Axis, Bounds, TensorSpec, bounds_of

_MOST_AXES, _MOST_WAYS = 8, 100  # eight axes may be taken for one another in 4,140 ways
_LARGER = (16, 32, 64, 128, 256)
_LARGEST = (1024, 4096, 16384)  # of a signal; tried after the steps, for a picture as large takes long
_ONE_SIZE = (224, 32, 28, 64, 128, 256, 384, 299, 336, 448, 512, 518, 16, 48, 96, 112, 160, 192, 240, 288)
_STEPS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 56, 64, 112, 128)
_MULTIPLES = (1, 2, 4)  # of a step, that its sizes may begin at
_MOST_ELEMENTS = 2**24  # of an input
_MOST_S = 30.0  # for all trials

AcceptsSizes: TypeAlias = Callable[[Mapping[str, int]], bool]


def suggest_sizes(inputs: Sequence[TensorSpec], own: Mapping[str, int], accepts: AcceptsSizes) -> str:
    """Say what helps where a model does not take samples of the axis sizes `own`.
    That is larger sizes, or some in steps, else as many different sizes as the model allows. `accepts`: whether it
    answers at such sizes."""
    if not own:
        return "give --data FILE.npz"
    options = find_sizes(inputs, own, accepts)
    if options is None and (hint := suggest_one_name(inputs, own, accepts)):
        return hint
    options = options or _options_of_one_size(inputs, own, accepts)
    return f"give the sizes that it takes, as in {options}, or --data FILE.npz"


def _options_of_one_size(inputs: Sequence[TensorSpec], own: Mapping[str, int], accepts: AcceptsSizes) -> str:
    """Return options for a model that answers where all axes have the same size, from the first such on."""
    search = _BoundsSearch(inputs, own, accepts)
    least = next((size for size in _LARGER if search.accepts_at(dict.fromkeys(own, size))), None)
    sizes = "32..256" if least is None else f"{least}.."
    return _input_options(inputs, {axis: f"{axis}={sizes}" for axis in own})


def suggest_one_name(inputs: Sequence[TensorSpec], own: Mapping[str, int], accepts: AcceptsSizes) -> str | None:
    """Say which axes are of one size, if the model takes samples in which they are; None if that does not help."""
    merges = _merged_axes(list(own)) if len(own) <= _MOST_AXES else iter(())
    for firsts in islice(merges, _MOST_WAYS):
        if accepts({axis: own[first] for axis, first in firsts.items()}):
            return f"give axes that are of one size one name, as in {_input_options(inputs, firsts)}"
    return None


def suggest_one_size(inputs: Sequence[TensorSpec], own: Mapping[str, int], accepts: AcceptsSizes) -> str | None:
    """Say at which size the axes are fixed, if the model takes them all at one; None if none of those tried helps."""
    search = _BoundsSearch(inputs, own, accepts)
    for size in _ONE_SIZE if own else ():
        if search.accepts_at(dict.fromkeys(own, size)):
            return f"fix the size that it takes, as in {_input_options(inputs, dict.fromkeys(own, str(size)))}"
    return None


def find_sizes(
    inputs: Sequence[TensorSpec],
    own: Mapping[str, int],
    accepts: AcceptsSizes,
    clock: Callable[[], float] = time.monotonic,
) -> str | None:
    """Return options with the bounds of `find_bounds`; None if there are none."""
    bounds = find_bounds(inputs, own, accepts, clock)
    if not bounds:
        return None
    return _input_options(inputs, {axis: f"{axis}={limits}" for axis, limits in bounds.items()})


def find_bounds(
    inputs: Sequence[TensorSpec],
    own: Mapping[str, int],
    accepts: AcceptsSizes,
    clock: Callable[[], float] = time.monotonic,
) -> Mapping[str, Bounds] | None:
    """Return bounds for the axes of `own` at which a model answers; None if there are none in time.
    Larger sizes come before those in steps, and begin at the least that has an answer. An axis that may have any size
    is left out."""
    search, start = _BoundsSearch(inputs, own, accepts), clock()
    stepped = ((by * step, step) for step in _STEPS for by in _MULTIPLES)
    for least, step in [*((size, 1) for size in _LARGER), *stepped, *((size, 1) for size in _LARGEST)]:
        if clock() - start > _MOST_S:
            return None
        if bounds := search.within(least, step):
            return search.relaxed(search.lowered(bounds, least, step))
    return None


def describe_bounds(bounds: Mapping[str, Bounds]) -> str:
    """Say in a sentence for the user at which sizes a model is asked, and why at no others."""
    words = " and ".join(f"{axis}={limits}" for axis, limits in bounds.items())
    return f"sizes {words} by asking the model, which refuses others"


@dataclass(frozen=True)
class _BoundsSearch:
    inputs: Sequence[TensorSpec]
    own: Mapping[str, int]  # sizes that the model refuses
    accepts: AcceptsSizes

    def within(self, least: int, step: int) -> dict[str, Bounds] | None:
        """Return bounds for every axis, from `least` on in steps, if the model answers at several points in them."""
        declared = bounds_of(self.inputs)
        bounds: dict[str, Bounds] = {}
        for axis in self.own:
            limits = in_steps(declared.get(axis, ANY_SIZE), least, step)
            if limits is None:
                return None
            bounds[axis] = limits
        return bounds if all(map(self.accepts_at, _points(bounds))) else None

    def lowered(self, bounds: dict[str, Bounds], least: int, step: int) -> dict[str, Bounds]:
        """Return bounds from the least size on that has an answer; without a step, if the model needs none there.
        `bounds` are those from `least` on in steps."""
        if step > 1:
            lower = self.within(least - step, step) if least > step else None
            free = self.within(least, 1)
            if free is None or any(limits.step > 1 for limits in free.values()):
                return lower or bounds
            bounds = free
        refused = 0
        while least - refused > 1:
            middle = (least + refused) // 2
            if lower := self.within(middle, 1):
                bounds, least = lower, middle
            else:
                refused = middle
        return bounds

    def relaxed(self, bounds: Mapping[str, Bounds]) -> Mapping[str, Bounds]:
        """Return the bounds without those axes that the model also takes at sizes outside of them."""
        kept, declared = dict(bounds), bounds_of(self.inputs)
        for axis in bounds if len(bounds) > 1 else ():
            usual = next(_points(kept))
            own = self.own[axis]
            nearest = map(declared.get(axis, ANY_SIZE).nearest, (own, own + 1, own + 2))
            if all(self.accepts_at({**self.own, **usual, axis: size}) for size in nearest):
                del kept[axis]
        return kept

    def accepts_at(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the model answers at these sizes; not where an input would be very large."""
        most = max(math.prod(sizes.get(axis, 1) if isinstance(axis, str) else axis for axis in spec.shape)
                   for spec in self.inputs)  # fmt: skip
        return most <= _MOST_ELEMENTS and self.accepts(sizes)


def in_steps(declared: Bounds, least: int, step: int) -> Bounds | None:
    """Return the multiples of `step` from `least` on that an axis may have; None where these are no two."""
    step = math.lcm(step, declared.step)
    low = -(-max(least, declared.filled.low) // step) * step if step > 1 else max(least, declared.filled.low)
    if low not in declared:
        return None
    high = None if declared.high is None else declared.high - (declared.high - low) % step
    return None if high is not None and high <= low else Bounds(low, high, step)


def _points(bounds: Mapping[str, Bounds]) -> Iterator[dict[str, int]]:
    """Yield sizes within bounds: each axis with another number of steps, odd and even, and all at their least."""
    for first, more in ((1, 1), (4, 3)):
        steps = {axis: first + more * at for at, axis in enumerate(bounds)}
        yield {axis: limits.nearest(limits.low + steps[axis] * limits.step) for axis, limits in bounds.items()}
    yield {axis: limits.low for axis, limits in bounds.items()}


def _merged_axes(axes: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """Yield the ways in which some axes may be one: each axis with the first that it equals, most sizes first."""
    merges: list[dict[str, str]] = [{}]
    for axis in axes:
        merges = [{**merge, axis: first} for merge in merges for first in (*dict.fromkeys(merge.values()), axis)]
    counts = [len(set(merge.values())) for merge in merges]
    for wanted in range(len(axes) - 1, 0, -1):
        yield from (merge for merge, count in zip(merges, counts, strict=True) if count == wanted)


def _input_options(inputs: Sequence[TensorSpec], axes: Mapping[str, str]) -> str:
    """Write the inputs as options of the command line, with other words for some of their axes."""
    bounds = {axis: limits for axis, limits in bounds_of(inputs).items() if "=" not in axes.get(axis, "")}

    def axis_text(axis: Axis) -> str:
        word = axes.get(axis, axis) if isinstance(axis, str) else str(axis)
        return f"{word}={bounds[word]}" if word in bounds else word

    resized = {spec: f"{spec.name}={spec.dtype}[{','.join(map(axis_text, spec.shape))}]" for spec in inputs}
    return " ".join(
        f"--input '{text} in {spec.values}'" if spec.values else f"--input {text}" for spec, text in resized.items()
    )
