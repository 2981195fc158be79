"""Inputs that a step calls a model with itself: the user's samples where there are any, else random ones.

Random ones have a fixed seed and fit the signature. The user's samples are those of `drawing_from`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ..signature import Array, Signature, TensorSpec, ValueRange
from .sizes import example_sizes
from .value_range import AxisRange, Values

_SEED = 0
_LENGTHS = re.compile(r"(^|_)(seq)?_?(lengths?|lens?)$")
_UNMEASURED = 3  # the largest length where nothing tells what is measured: that of any other integer of a random sample

# Draws inputs of the specs at sizes, by a seed; None where it has none that fit.
DrawsSamples: TypeAlias = Callable[[Sequence[TensorSpec], Mapping[str, int], int], dict[str, Array] | None]
_DRAWS: ContextVar[tuple[DrawsSamples, ...]] = ContextVar("draws_samples", default=())


@contextmanager
def drawing_from(draws: DrawsSamples) -> Iterator[None]:
    """Draw inputs by `draws` in this context, where it has any that fit and what was set before it has none."""
    token = _DRAWS.set((*_DRAWS.get(), draws))
    try:
        yield
    finally:
        _DRAWS.reset(token)


@contextmanager
def drawing_at_random() -> Iterator[None]:
    """Draw inputs at random in this context, whatever samples the user has given."""
    token = _DRAWS.set(())
    try:
        yield
    finally:
        _DRAWS.reset(token)


def has_user_samples(specs: Sequence[TensorSpec]) -> bool:
    """Return whether inputs of these specs are drawn from samples of the user."""
    return _user_samples(specs, example_sizes(specs, 1), _SEED) is not None


def _user_samples(specs: Sequence[TensorSpec], sizes: Mapping[str, int], seed: int) -> dict[str, Array] | None:
    every = (draws(specs, sizes, seed) for draws in _DRAWS.get())
    return next((samples for samples in every if samples is not None), None)


def sample_inputs(signature: Signature, batch: int, seed: int = _SEED) -> dict[str, Array]:
    """Draw inputs by name to trace or to try a model with.
    The batch has the size `batch`, any other dynamic axis a size of its own, each within its bounds."""
    return sample_tensors(signature.inputs, example_sizes(signature.inputs, batch), seed)


def sample_tensors(
    specs: Sequence[TensorSpec],
    sizes: Mapping[str, int],
    seed: int = _SEED,
    *,
    whole_bytes: bool = False,
    below_axes: bool = False,
) -> dict[str, Array]:
    """Draw arrays by name, with dynamic axes of the given sizes: from the samples of `drawing_from`, else at random.

    Floats are normal around 0.3, so that a swapped sign, axis or channel shows. Integers are 0..3, which every table of
    embeddings has; in masks they are 0..1. Lengths go from 1 to what they measure (0 where that is empty).

    `whole_bytes` draws int8 and uint8 over their whole range, as pictures are: in PyTorch a byte is no index. A model
    that makes an index of it (`table(codes.long())`) may have a small table, so it is not traced with these.
    `below_axes` leaves out the upper end where that is the size of an axis: no length is the whole of it.
    """
    if (samples := _user_samples(specs, sizes, seed)) is not None:
        return samples
    rng = np.random.default_rng(seed)
    if below_axes:
        specs = [replace(spec, values=_without_top(spec, sizes)) for spec in specs]
    return {spec.name: _draw(spec, specs, sizes, rng, whole_bytes=whole_bytes) for spec in specs}


def _without_top(spec: TensorSpec, sizes: Mapping[str, int]) -> Values | None:
    """Return the range of an input without its upper end, where that is the size of an axis and leaves another."""
    low, high = spec.values.at(sizes) if isinstance(spec.values, AxisRange) else (0, 0)
    return AxisRange(int(low), int(high) - 1) if low < high else spec.values


def has_telling_name(name: str) -> bool:
    """Return whether an input's name tells what its numbers may be."""
    return name.endswith(("mask", "token_type_ids"))


def is_length(spec: TensorSpec) -> bool:
    """Return whether the integers of an input are lengths, as those of `lengths` and `token_len` are."""
    return np.dtype(spec.dtype).kind in "iu" and _LENGTHS.search(spec.name) is not None


def max_length(spec: TensorSpec, specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> int:
    """Return the size of what an input of lengths measures; 0 where that is empty.
    It measures the dynamic axes of the other inputs that it does not have itself, and the least of them counts. Where
    there is none, it measures the first axis of each other input, where it does not have that."""
    unshared = [[axis for axis in other.shape if axis not in spec.shape] for other in specs if other is not spec]
    dynamic = [sizes[axis] for axes in unshared for axis in axes if isinstance(axis, str) and axis in sizes]
    fixed = [axes[0] for axes in unshared if axes and isinstance(axes[0], int)]
    return min(dynamic or fixed, default=_UNMEASURED)


def _draw(
    spec: TensorSpec,
    specs: Sequence[TensorSpec],
    sizes: Mapping[str, int],
    rng: np.random.Generator,
    *,
    whole_bytes: bool,
) -> Array:
    shape, dtype = spec.sized(sizes), np.dtype(spec.dtype)
    if spec.values is not None:
        values = spec.values.at(sizes) if isinstance(spec.values, AxisRange) else spec.values
        return _draw_values(values, shape, dtype, rng)
    if is_length(spec):
        most = max_length(spec, specs, sizes)
        return np.asarray(rng.integers(min(1, most), most + 1, shape), dtype=dtype)
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape) + 0.3, dtype=dtype)
    if dtype.kind in "bO":
        return _draw_flags(shape, rng) if dtype.kind == "b" else np.full(shape, b"", dtype)
    if whole_bytes and dtype.itemsize == 1 and not has_telling_name(spec.name):
        limits = np.iinfo(dtype)
        return np.asarray(rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True))
    return np.asarray(_draw_integers(spec.name, shape, rng), dtype=dtype)


def _draw_values(values: ValueRange, shape: Sequence[int], dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """Draw numbers of a declared range, the first two of them its ends."""
    low, high = values
    if dtype.kind in "iu":
        array = np.array(rng.integers(int(low), int(high), shape, dtype=dtype.type, endpoint=True), dtype=dtype)
    else:
        array = np.array(rng.uniform(low, high, shape), dtype=dtype)
    array.reshape(-1)[:2] = (high, low)[: array.size]
    return array


def _draw_flags(shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Draw true and false so that both stand in each row along the last axis, where that has two places.
    Both stand in the first half of the row, which stays when it is cut to another size. A mask that hides all is a
    question of its own (masks.py): PyTorch's fused encoder raises an error to it, or answers NaN."""
    drawn = np.asarray(rng.random(shape) < 0.6)
    if shape and shape[-1] > 1:
        first = drawn[..., : max(2, -(-shape[-1] // 2))]
        drawn[..., 0] ^= first.all(axis=-1) | ~first.any(axis=-1)
    return drawn


def _draw_integers(name: str, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Draw 0 to 3, or fewer where the name tells so.
    A mask is ones and then zeros along its last axis, never zeros alone: such a row has no answer that is defined.
    transformers' token_type_ids are 0 or 1."""
    if name.endswith("mask") and shape and shape[-1]:
        ones = rng.integers(1, shape[-1] + 1, (*shape[:-1], 1))
        return np.arange(shape[-1]) < ones
    return rng.integers(0, 2 if name.endswith("token_type_ids") else 4, shape)
