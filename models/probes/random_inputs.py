"""Random inputs of a fixed seed that fit a signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..signature import Array, Signature, TensorSpec
from .lengths import is_length, max_length
from .sizes import example_sizes

_SEED = 0


def sample_inputs(signature: Signature, batch: int, seed: int = _SEED) -> dict[str, Array]:
    """Draw inputs by name to trace or to try a model with.
    The batch has the size `batch`, any other dynamic axis a size of its own, each within its bounds."""
    return sample_tensors(signature.inputs, example_sizes(signature.inputs, batch), seed)


def sample_tensors(
    specs: Sequence[TensorSpec], sizes: Mapping[str, int], seed: int = _SEED, *, whole_bytes: bool = False
) -> dict[str, Array]:
    """Draw arrays by name, with dynamic axes of the given sizes.

    Floats are normal around 0.3, so that a swapped sign, axis or channel shows. Integers are 0..3, which every table of
    embeddings has; in masks they are 0..1. Lengths go from 1 to what they measure (0 where that is empty).

    `whole_bytes` draws int8 and uint8 over their whole range, as pictures are: in PyTorch a byte is no index. A model
    that makes an index of it (`table(codes.long())`) may have a small table, so it is not traced with these.
    """
    rng = np.random.default_rng(seed)
    longest = {spec.name: max_length(spec, specs, sizes) for spec in specs if is_length(spec)}
    return {
        spec.name: _draw_lengths(spec, sizes, rng, longest[spec.name])
        if spec.name in longest
        else _draw(spec, sizes, rng, whole_bytes=whole_bytes)
        for spec in specs
    }


def has_telling_name(name: str) -> bool:
    """Return whether an input's name tells what its numbers may be."""
    return name.endswith(("mask", "token_type_ids"))


def _draw_lengths(spec: TensorSpec, sizes: Mapping[str, int], rng: np.random.Generator, most: int) -> Array:
    return np.asarray(rng.integers(min(1, most), most + 1, _shape(spec, sizes)), dtype=spec.dtype)


def _shape(spec: TensorSpec, sizes: Mapping[str, int]) -> list[int]:
    return [axis if isinstance(axis, int) else sizes[axis] for axis in spec.shape]


def _draw(spec: TensorSpec, sizes: Mapping[str, int], rng: np.random.Generator, *, whole_bytes: bool) -> Array:
    shape = _shape(spec, sizes)
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape) + 0.3, dtype=dtype)
    if dtype.kind == "b":
        return _draw_flags(shape, rng)
    if whole_bytes and dtype.itemsize == 1 and not has_telling_name(spec.name):
        limits = np.iinfo(dtype)
        return np.asarray(rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True))
    return np.asarray(_draw_integers(spec.name, shape, rng), dtype=dtype)


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
