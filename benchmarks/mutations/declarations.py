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

_AXIS = re.compile(r"(\w+)(?:=(\d+)\.\.(\d+))?")
LARGEST_BATCH = 130  # of use: nothing bounds the batch axis
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

    `values`: both ends of what integers may be. `draw`: how floats are drawn. A mask is ones and then zeros along its
    last axis, at least one 1.
    """

    text: str  # "ids=int64[batch,seq=1..64]"
    values: tuple[int, int] | None = None
    draw: Draw = _STANDARD
    mask: bool = False

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
        """The bounds of each named axis that has them."""
        matches = [match for dim in self.dims if (match := _AXIS.fullmatch(dim)) and match[2]]
        return {match[1]: (int(match[2]), int(match[3])) for match in matches}

    def declaration(self, *, with_values: bool) -> str:
        """Return the argument of --input; `with_values`: the ends of integers too ("in 0..299")."""
        if self.values is None or not with_values:
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
        if self.values is not None:
            low, high = self.values
            return np.asarray(rng.integers(low, high, shape, endpoint=True), dtype=self.dtype)
        return np.asarray(self.draw(rng, shape), dtype=self.dtype)


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
    sizes = {axis: low + (high - low) // 3 for axis, (low, high) in axis_bounds(inputs).items()}
    return {**sizes, BATCH: batch}


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
        calls += [_declared(inputs, rng, f"{axis}={size}", {axis: size}) for size in sorted(inside)]
    if bounds:
        calls.append(_declared(inputs, rng, "all largest", {axis: high for axis, (_, high) in bounds.items()}))
        calls.append(_declared(inputs, rng, "all least", {axis: low for axis, (low, _) in bounds.items()}))
    for one_input in inputs:
        if one_input.values is not None and not one_input.mask:
            calls += [_with_ends(inputs, rng, one_input, end) for end in one_input.values]
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
    floats = [one_input.name for one_input in inputs if one_input.dtype.startswith("float")]

    def add(name: str, change: Callable[[Array], Array]) -> None:
        feeds = draw_feeds(inputs, rng, middle_sizes(inputs, 8))
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
