"""The module of a source, built and loaded. Runs the user's code: worker only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import BadRequest
from ..probes.lengths import is_length, longest
from ..probes.sizes import example_sizes
from ..signature import Array, Signature, TensorSpec
from ..sources import WEIGHTS, read_source
from .call_convention import Call, flat
from .construct import construct
from .half_precision import widen
from .weights import load_weights, read_weights

if TYPE_CHECKING:
    import torch

_SEED = 0


def build_model(folder: Path) -> torch.nn.Module:
    """The module of the source in `folder`, with its weights, in eval mode, without gradients, on the CPU: it takes the
    signature's inputs by position, and `name_outputs` finds the signature's outputs in what it returns.

    Without a weights file it is as its code constructs it under a fixed seed. Half-precision weights are float32.

    Raises BadRequest where the code or the weights do not fit.
    """
    source = read_source(folder)
    model = construct(source.ref)
    if (folder / WEIGHTS).exists():
        load_weights(model, read_weights(folder / WEIGHTS))
    widen(model)
    return model if source.call is None else flat(model, Call.from_json(source.call))


def call_model(model: torch.nn.Module, signature: Signature, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Outputs by name. `inputs` in the signature's order; the module may return a tensor, a sequence or a mapping.

    Raises BadRequest where it returns other outputs than the signature names.
    """
    return name_outputs(model(*inputs), [spec.name for spec in signature.outputs])


def name_outputs(given: Any, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """What a module returned, under the names of its outputs in their order.

    Raises BadRequest where the two do not match.
    """
    if isinstance(given, Mapping):
        found, count = dict(given), len(given)
        fits = set(found) == set(names)
    else:
        values = list(given) if isinstance(given, tuple | list) else [given]
        fits, count = len(values) == len(names), len(values)
        found = dict(zip(names, values, strict=False))
    if not fits:
        raise BadRequest(
            f"the model returned {count} outputs where its signature names {', '.join(names)}",
            fix="name the model's outputs in the signature, in its order",
        )
    return {name: found[name] for name in names}


def sample_inputs(signature: Signature, batch: int, seed: int = _SEED) -> dict[str, Array]:
    """Inputs by name to trace or to try a model with; the batch is of the size `batch`, any other dynamic axis of a
    size of its own, each within its bounds (see sample_tensors)."""
    return sample_tensors(signature.inputs, example_sizes(signature.inputs, batch), seed)


def sample_tensors(
    specs: Sequence[TensorSpec], sizes: Mapping[str, int], seed: int = _SEED, *, whole_bytes: bool = False
) -> dict[str, Array]:
    """Arrays by name: floats normal around 0.3, so that a swapped sign, axis or channel shows; integers 0..3, which
    every table of embeddings has (and 0..1 in masks), lengths from 1 to what they measure (0 where that is empty);
    dynamic axes of the sizes given.

    `whole_bytes`: int8 and uint8 are drawn over all that they hold, as pictures are: in PyTorch a byte is no index. A
    model that makes one of it (`table(codes.long())`) may have a small table, so it is not traced with these.
    """
    rng = np.random.default_rng(seed)
    most = {spec.name: longest(spec, specs, sizes) for spec in specs if is_length(spec)}
    return {
        spec.name: _lengths(spec, sizes, rng, most[spec.name])
        if spec.name in most
        else _sample(spec, sizes, rng, whole_bytes=whole_bytes)
        for spec in specs
    }


def _lengths(spec: TensorSpec, sizes: Mapping[str, int], rng: np.random.Generator, most: int) -> Array:
    return np.asarray(rng.integers(min(1, most), most + 1, _shape(spec, sizes)), dtype=spec.dtype)


def _shape(spec: TensorSpec, sizes: Mapping[str, int]) -> list[int]:
    return [axis if isinstance(axis, int) else sizes[axis] for axis in spec.shape]


def _sample(spec: TensorSpec, sizes: Mapping[str, int], rng: np.random.Generator, *, whole_bytes: bool) -> Array:
    shape = _shape(spec, sizes)
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape) + 0.3, dtype=dtype)
    if dtype.kind == "b":
        return _flags(shape, rng)
    if whole_bytes and dtype.itemsize == 1 and not is_told(spec.name):
        limits = np.iinfo(dtype)
        return np.asarray(rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True))
    return np.asarray(_whole_numbers(spec.name, shape, rng), dtype=dtype)


def _flags(shape: Sequence[int], rng: np.random.Generator) -> Array:
    """True and false, both in each row along the last axis where that has two places, and in the first half of it,
    which stays when it is cut to another size: a mask that hides all is a question of its own (masks.py), and
    PyTorch's fused encoder raises an error to it, or answers NaN."""
    drawn = np.asarray(rng.random(shape) < 0.6)
    if shape and shape[-1] > 1:
        first = drawn[..., : max(2, -(-shape[-1] // 2))]
        drawn[..., 0] ^= first.all(axis=-1) | ~first.any(axis=-1)
    return drawn


def is_told(name: str) -> bool:
    """Whether the name of an input tells what its numbers may be."""
    return name.endswith(("mask", "token_type_ids"))


def _whole_numbers(name: str, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """0 to 3, but where the name tells of fewer: a mask is ones and then zeros along its last axis, never zeros alone
    (such a row has no answer that is defined), and transformers' token_type_ids are 0 or 1."""
    if name.endswith("mask") and shape and shape[-1]:
        ones = rng.integers(1, shape[-1] + 1, (*shape[:-1], 1))
        return np.arange(shape[-1]) < ones
    return rng.integers(0, 2 if name.endswith("token_type_ids") else 4, shape)
