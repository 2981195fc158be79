"""What a model gives, found out by calling it. Worker only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import BadRequest
from ..signature import Array, Signature, TensorSpec, served_dtype
from .build import sample_tensors

if TYPE_CHECKING:
    import torch

_NAMED = "name the outputs in the signature of a Recipe; `transload new NAME` writes one to start from"


def infer_signature(model: torch.nn.Module, inputs: tuple[TensorSpec, ...]) -> Signature:
    """The signature of a model with these inputs, from two calls in which every dynamic axis has another size.

    An axis of an output that changes with an input's axis has its name, one that changes otherwise a name of its own.
    Outputs are called as the model's mapping calls them, else `output`, or `output_0` and so on.

    Raises BadRequest where the outputs are not tensors that numpy knows.
    """
    axes = list(dict.fromkeys(axis for spec in inputs for axis in spec.dynamic_axes.values()))
    sizes = [{axis: 2 + 3 * at + more for at, axis in enumerate(axes)} for more in (0, 1)]
    first, second = (_outputs(model, sample_tensors(inputs, size)) for size in sizes)
    known = {(sizes[0][axis], sizes[1][axis]): axis for axis in axes}
    return Signature(inputs, tuple(_spec(name, first[name], second[name], known) for name in first))


def _outputs(model: torch.nn.Module, inputs: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    import torch

    with torch.no_grad():
        given: Any = model(*(torch.from_numpy(value) for value in inputs.values()))
    if isinstance(given, torch.Tensor):
        given = {"output": given}
    elif isinstance(given, tuple | list):
        given = {f"output_{at}": value for at, value in enumerate(given)}
    if not isinstance(given, Mapping) or not all(isinstance(value, torch.Tensor) for value in given.values()):
        raise BadRequest(f"the model returns a {type(given).__name__} that is not of tensors alone", fix=_NAMED)
    return {str(name): value for name, value in given.items()}


def _spec(name: str, first: torch.Tensor, second: torch.Tensor, known: Mapping[tuple[int, int], str]) -> TensorSpec:
    if first.ndim != second.ndim:
        raise BadRequest(f"the rank of the output {name} changes with the size of an input", fix=_NAMED)
    shape = [
        size if size == other else known.get((size, other), f"{name}_{at}")
        for at, (size, other) in enumerate(zip(first.shape, second.shape, strict=True))
    ]
    try:
        return TensorSpec(name, served_dtype(str(first.dtype)), tuple(shape))
    except ValueError as error:
        raise BadRequest(
            f"the output {name} is {first.dtype}, which the formats do not carry", fix="let the model return float32"
        ) from error
