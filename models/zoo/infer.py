"""What a model takes and gives, found out by calling it. Worker only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ..axes import two_sizes
from ..errors import BadRequest
from ..signature import Array, Signature, TensorSpec, served_dtype
from .build import sample_tensors
from .calling import Call, call_by_name, flatten, is_flat

if TYPE_CHECKING:
    import torch

_NAMED = "name the outputs in the signature of a Recipe; `transload new NAME` writes one to start from"


def infer_signature(
    model: torch.nn.Module, inputs: tuple[TensorSpec, ...], call: Call | None = None
) -> tuple[Signature, Call | None]:
    """The signature of a model with these inputs, from two calls in which every dynamic axis has another size; and how
    it is called, or None where it takes its inputs by position and gives a tensor, or a plain tuple or list of them.

    `call`: how the inputs go in, where it is known (its outputs are not yet); else it is found by their names.
    An axis of an output that changes with an input's axis has its name, one that changes otherwise a name of its own.
    Outputs are called by their path in what forward returns (calling.flatten).

    Raises BadRequest where the inputs do not go in, or the outputs are not tensors that numpy knows.
    """
    names = tuple(spec.name for spec in inputs)
    call = call or call_by_name(model.forward, names, f"forward of {type(model).__name__}")
    sizes = two_sizes(inputs)
    given = [_given(model, call, sample_tensors(inputs, size)) for size in sizes]
    first, second = map(flatten, given)
    if list(first) != list(second):
        raise BadRequest(
            f"the model returns {', '.join(first)} at one size of its inputs and {', '.join(second)} at another",
            fix="let forward return the same parts at every size",
        )
    known = {(sizes[0][axis], sizes[1][axis]): axis for axis in sizes[0]}
    outputs = tuple(_spec(name, first[name], second[name], known) for name in first)
    plain = call.by_position and all(map(is_flat, given))
    return Signature(inputs, outputs), None if plain else replace(call, outputs=tuple(first))


def _given(model: torch.nn.Module, call: Call, inputs: Mapping[str, Array]) -> object:
    import torch

    arguments, keywords = call.bind([torch.from_numpy(inputs[name]) for name in call.inputs])
    with torch.no_grad():
        return model(*arguments, **keywords)


def _spec(name: str, first: torch.Tensor, second: torch.Tensor, known: Mapping[tuple[int, int], str]) -> TensorSpec:
    if first.ndim != second.ndim:
        raise BadRequest(f"the rank of the output {name} changes with the size of an input", fix=_NAMED)
    shape = [
        size if size == other else known.get((size, other), f"{name}_{at}")
        for at, (size, other) in enumerate(zip(first.shape, second.shape, strict=True))
    ]
    return TensorSpec(name, carried_dtype(f"the output {name}", first.dtype), tuple(shape))


def carried_dtype(what: str, dtype: torch.dtype) -> str:
    """The numpy name of a dtype.

    Raises BadRequest where the formats do not carry it, with the mend for what it is.
    """
    try:
        return served_dtype(str(dtype))
    except ValueError as error:
        mend = "torch.view_as_real(...): real and imaginary parts" if dtype.is_complex else "float32"
        raise BadRequest(
            f"{what} is {dtype}, which the formats do not carry", fix=f"let the model take and return {mend}"
        ) from error
