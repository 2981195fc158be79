"""What a model's inputs may be: names, shapes with bounds, and values; and inputs drawn from that declaration."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Feeds: TypeAlias = dict[str, Array]
Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...]], Array]

_AXIS = re.compile(r"(\w+)(?:=(\d+)\.\.(\d+)?)?")
LARGEST_BATCH = 130  # of use: nothing bounds the batch axis
_MANY = 1000  # values of an integer that are all asked
LONGEST = 600  # of use: nothing bounds an open axis
BATCH = "batch"


def normal(mean: float = 0.0, std: float = 1.0) -> Draw:
    """Return a draw of normal numbers."""
    return lambda rng, shape: rng.normal(mean, std, shape)


def uniform(low: float, high: float) -> Draw:
    """Return a draw of numbers between two ends."""
    return lambda rng, shape: rng.uniform(low, high, shape)


_STANDARD = normal()


@dataclass(frozen=True)
class Input:
    """One input: the text of --input, and which values it may hold.

    `values`: both ends of what it may be. `draw`: how floats without ends are drawn. `data`: both ends of what the
    user's samples hold of that. `imputed`: NaN is a value like others. A mask is ones and then zeros along its last
    axis, at least one 1, where it is drawn at random; other shapes of masks are calls of their own.
    """

    text: str  # "ids=int64[batch,seq=1..64]"
    values: tuple[int, int] | None = None
    draw: Draw = _STANDARD
    mask: bool = False
    data: tuple[int, int] | None = None
    imputed: bool = False

    @property
    def name(self) -> str:
        """The name before the first equals sign."""
        return self.text.partition("=")[0]

    @property
    def dtype(self) -> str:
        """The numpy name of the dtype."""
        return self.text.partition("=")[2].partition("[")[0]

    @property
    def dims(self) -> list[str]:
        """The axes as they are written."""
        return self.text[self.text.index("[") + 1 : -1].split(",")

    @property
    def bounds(self) -> dict[str, tuple[int, int]]:
        """The bounds of each named axis that has them; an open axis ends at LONGEST."""
        matches = [match for dim in self.dims if (match := _AXIS.fullmatch(dim)) and match[2]]
        return {match[1]: (int(match[2]), int(match[3] or LONGEST)) for match in matches}

    def declaration(self, *, with_values: bool) -> str:
        """Return the argument of --input; `with_values`: the ends of integers too ("in 0..299")."""
        if self.values is None or not with_values or self.dtype == "bool":
            return self.text
        return f"{self.text} in {self.values[0]}..{self.values[1]}"

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape at the given sizes of named axes."""
        return tuple(int(dim) if dim.isdecimal() else sizes[dim.partition("=")[0]] for dim in self.dims)

    def sample(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
        """Draw values for the given sizes."""
        shape = self.shape(sizes)
        if self.mask:
            ones = rng.integers(1, shape[-1] + 1, (*shape[:-1], 1))
            return np.asarray(np.arange(shape[-1]) < ones, dtype=self.dtype)
        ends = self.data or self.values
        if ends is not None:
            return self.between(rng, ends, shape)
        return np.asarray(self.draw(rng, shape), dtype=self.dtype)

    def between(self, rng: np.random.Generator, ends: tuple[int, int], shape: tuple[int, ...]) -> Array:
        """Draw values between two ends, which integers may take."""
        is_float = self.dtype.startswith("float")
        values = rng.uniform(*ends, shape) if is_float else rng.integers(*ends, shape, endpoint=True)
        return np.asarray(values, dtype=self.dtype)


@dataclass(frozen=True)
class Call:
    """One call of a model, and why it is made."""

    name: str  # "random", "batch=130", "large"
    kind: str  # "random", "declared" or "stress"
    feeds: Feeds

    @property
    def has_nan(self) -> bool:
        """Whether an input holds a NaN or an infinity."""
        return any(array.dtype.kind == "f" and not np.isfinite(array).all() for array in self.feeds.values())


def axis_bounds(inputs: Sequence[Input]) -> dict[str, tuple[int, int]]:
    """Return the bounds of every axis other than the batch."""
    return {axis: ends for one_input in inputs for axis, ends in one_input.bounds.items()}


def middle_sizes(inputs: Sequence[Input], batch: int) -> dict[str, int]:
    """Return sizes near the middle of the lower half of the bounds, as random samples have them."""
    sizes = {axis: low + _share(low, high) for axis, (low, high) in axis_bounds(inputs).items()}
    return {**sizes, BATCH: batch}


def _share(low: int, high: int) -> int:
    return 11 if high == LONGEST else (high - low) // 3


def draw_feeds(inputs: Sequence[Input], rng: np.random.Generator, sizes: Mapping[str, int]) -> Feeds:
    """Draw all inputs at the given sizes."""
    return {one_input.name: one_input.sample(rng, sizes) for one_input in inputs}


def random_calls(inputs: Sequence[Input]) -> list[Call]:
    """Return 8 calls of 8 random samples each, at middle sizes."""
    rng = np.random.default_rng(7)
    return [Call("random", "random", draw_feeds(inputs, rng, middle_sizes(inputs, 8))) for _ in range(8)]


def declared_calls(inputs: Sequence[Input]) -> list[Call]:
    """Return calls at what the declaration allows: batches, every axis at its ends and between, integers at theirs."""
    rng = np.random.default_rng(8)
    calls = [_declared(inputs, rng, f"batch={batch}", {BATCH: batch}) for batch in (1, 2, 3, 65, LARGEST_BATCH)]
    bounds = axis_bounds(inputs)
    for axis, (low, high) in bounds.items():
        inside = {low, low + 1, low + 2, low + 3, (low + high) // 2, (low + high) // 2 + 1, high - 1, high}
        inside |= {100, 128, 200, 257, 400, 513} if high == LONGEST else set()
        calls += [_declared(inputs, rng, f"{axis}={size}", {axis: size}) for size in sorted(inside)]
    if bounds:
        calls.append(_declared(inputs, rng, "all largest", {axis: high for axis, (_, high) in bounds.items()}))
        calls.append(_declared(inputs, rng, "all least", {axis: low for axis, (low, _) in bounds.items()}))
    for one_input in inputs:
        if one_input.values is not None and not one_input.mask:
            calls += [_with_ends(inputs, rng, one_input, end) for end in one_input.values]
    return [*calls, *_combined_calls(inputs), *_value_calls(inputs), *_mask_calls(inputs)]


def _combined_calls(inputs: Sequence[Input]) -> list[Call]:
    """Return calls at combined sizes: all odd, all even, batch 1 and every axis at its least, large and large."""
    rng, bounds = np.random.default_rng(10), axis_bounds(inputs)
    ends = {axis: (low, min(high, 64) if high == LONGEST else high) for axis, (low, high) in bounds.items()}
    combined = {
        "all odd": {axis: (low + _share(low, high)) | 1 for axis, (low, high) in bounds.items()},
        "odd and large": {axis: high - (high + 1) % 2 for axis, (_, high) in ends.items()},
        "all even": {axis: (low + _share(low, high)) // 2 * 2 for axis, (low, high) in bounds.items()},
        "batch 1, all least": {BATCH: 1, **{axis: low for axis, (low, _) in ends.items()}},
        "batch 1, all largest": {BATCH: 1, **{axis: high for axis, (_, high) in ends.items()}},
        "batch 3, all odd": {BATCH: 3, **{axis: (low + _share(low, high)) | 1 for axis, (low, high) in ends.items()}},
        "batch 65, all largest": {BATCH: 65, **{axis: high for axis, (_, high) in ends.items()}},
    }
    if len(bounds) > 1:
        first = next(iter(bounds))
        combined["the first largest"] = {axis: ends[axis][axis == first] for axis in bounds}
        combined["the first least"] = {axis: ends[axis][axis != first] for axis in bounds}
    return [_declared(inputs, rng, name, sizes) for name, sizes in combined.items()] if bounds else []


def _value_calls(inputs: Sequence[Input]) -> list[Call]:
    """Return calls with values of the whole declaration where random ones are of the data, with each of some integers,
    and with NaN where the model puts numbers in its place."""
    rng, calls = np.random.default_rng(13), []
    for one_input in inputs:
        if one_input.data is not None and one_input.values is not None:
            call = _declared(inputs, rng, f"{one_input.name} of all values", {BATCH: 32})
            shape = call.feeds[one_input.name].shape
            call.feeds[one_input.name] = one_input.between(rng, one_input.values, shape)
            calls.append(call)
        low, high = one_input.values or (0, _MANY)
        if high - low < _MANY and one_input.dtype.startswith("int") and not one_input.mask:
            call = _declared(inputs, rng, f"each {one_input.name}", {BATCH: high - low + 1})
            array = call.feeds[one_input.name]
            array[...] = (np.arange(array.size) % (high - low + 1) + low).reshape(array.shape)
            calls.append(call)
        for share in (0.1, 0.5) if one_input.imputed else ():
            call = _declared(inputs, rng, f"{one_input.name} with {share:.0%} NaN", {BATCH: 16})
            array = call.feeds[one_input.name]
            array[rng.random(array.shape) < share] = np.nan
            calls.append(call)
    return calls


def _mask_calls(inputs: Sequence[Input]) -> list[Call]:
    """Return calls with masks of every shape: zeros first, holes, one single one, all ones, at several lengths."""
    rng, calls = np.random.default_rng(14), []
    for one_input in inputs:
        for length in (4, 9, 10_000) if one_input.mask else ():
            sizes = {axis: min(length, high) for axis, (_, high) in axis_bounds(inputs).items()}
            for name in ("zeros first", "holes", "a single one", "all ones"):
                call = _declared(inputs, rng, f"{one_input.name}: {name}, {min(sizes.values())} long", sizes)
                shape = call.feeds[one_input.name].shape
                places = np.broadcast_to(np.arange(shape[-1]), shape)
                start = rng.integers(1, shape[-1], (*shape[:-1], 1))
                holes = (rng.random(shape) < 0.6) | (places == 0) | (places == shape[-1] - 1)
                masks = {"zeros first": places >= start, "holes": holes, "a single one": places == start}
                call.feeds[one_input.name] = np.asarray(masks.get(name, places >= 0), dtype=one_input.dtype)
                calls.append(call)
    return calls


def _declared(inputs: Sequence[Input], rng: np.random.Generator, name: str, sizes: Mapping[str, int]) -> Call:
    return Call(name, "declared", draw_feeds(inputs, rng, {**middle_sizes(inputs, 4), **sizes}))


def _with_ends(inputs: Sequence[Input], rng: np.random.Generator, ended: Input, end: int) -> Call:
    """Return a call in which every second integer of an input is one end of what it may be."""
    call = _declared(inputs, rng, f"{ended.name}={end}", {})
    call.feeds[ended.name].reshape(-1)[::2] = end
    return call


_SCALES = {"tiny": 1e-6, "small": 1e-3, "times 10": 10.0, "times 100": 100.0, "times 10000": 1e4}


def stress_calls(inputs: Sequence[Input]) -> list[Call]:
    """Return calls that random inputs never make: magnitudes, constants, saturation, halves, NaN, masks."""
    rng = np.random.default_rng(9)
    calls: list[Call] = []
    floats = [
        one_input.name for one_input in inputs if one_input.dtype.startswith("float") and one_input.values is None
    ]

    def add(name: str, change: Callable[[Array], Array], batch: int = 8) -> None:
        feeds = draw_feeds(inputs, rng, middle_sizes(inputs, batch))
        for key in floats:
            feeds[key] = np.asarray(change(feeds[key]), dtype=feeds[key].dtype)
        calls.append(Call(name, "stress", feeds))

    if floats:
        for name, scale in _SCALES.items():
            add(name, lambda array, scale=scale: array * scale)  # type: ignore[misc]
        for value in (0.0, -0.0, 1.0, -1.0, 6.0, 0.5):
            add(f"all {value:g}", lambda array, value=value: np.full_like(array, value))  # type: ignore[misc]
        add("halves", lambda array: np.round(array * 4) / 2 + 0.5)
        add("quarters", lambda array: np.round(array * 4) / 4)
        add("saturating", lambda array: np.linspace(-40, 40, array.size).reshape(array.shape))
        add("a NaN", lambda array: _with_first(array, np.nan))
        add("an infinity", lambda array: _with_first(array, np.inf))
        add("one far up", lambda array: _with_first(array, 75.0))
        add("far and wide", lambda array: np.asarray(rng.uniform(-100, 100, array.shape)), 64)
        add("one far down", lambda array: _with_first(array, -75.0))
    for one_input in inputs:
        if one_input.mask:
            call = Call(f"{one_input.name} hides all", "stress", draw_feeds(inputs, rng, middle_sizes(inputs, 4)))
            call.feeds[one_input.name][::2] = 0
            calls.append(call)
    return calls


def _with_first(array: Array, value: float) -> Array:
    """Put a value at the first place of every second sample, and at a later one of the others."""
    flat = array.reshape(len(array), -1).copy()
    flat[::2, 0] = value
    flat[1::2, -1] = value
    return flat.reshape(array.shape)
