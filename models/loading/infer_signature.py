"""Infer the signature of a model by calling it. Worker only."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from ..errors import BadRequest
from ..probes.random_inputs import sample_tensors
from ..probes.sizes import two_sizes
from ..signature import ANY_SIZE, Array, Signature, TensorSpec, batch_axis, bounds_of, served_dtype
from .call_convention import Call, call_by_name, carried, is_flat, parted, takes_no_more

if TYPE_CHECKING:
    import torch

Inferred: TypeAlias = tuple[Signature, Call | None, Mapping[str, object]]  # as infer_signature returns them
_MORE = 64  # than the first of two sizes that are neighbours
_NAME_OUTPUTS = "name the outputs in the signature of a Recipe; `transload new NAME` writes one to start from"


def infer_signature(model: torch.nn.Module, inputs: tuple[TensorSpec, ...], call: Call | None = None) -> Inferred:
    """Infer the signature of a model with these inputs, from calls in which every dynamic axis has another size.

    Returns the signature; the call, or None where the model takes its inputs by position and returns a tensor, or a
    plain tuple or list of them; and the numbers and texts among its results, which are alike in all calls and no
    outputs of a copy. `call` says how the inputs go in, where it is known (without outputs); else their names tell it.
    An axis of an output that changes with an input's axis has its name; one that changes otherwise has a name of its
    own. Outputs are named by their path in the result of forward (call_convention.parted).
    Raises BadRequest where the inputs do not fit forward, or its results are neither tensors that numpy knows nor
    constants."""
    names = tuple(spec.name for spec in inputs)
    call = call or call_by_name(model.forward, names, f"forward of {type(model).__name__}")
    sizes = [*two_sizes(inputs)]
    results = [_call(model, call, sample_tensors(inputs, point)) for point in sizes]
    large = _large_sizes(inputs, *sizes)
    if large != sizes[0]:
        with contextlib.suppress(Exception):  # it may be larger than the model takes
            # A result may be as long as the largest length, and not as the axis that this is declared to end at.
            results.append(_call(model, call, sample_tensors(inputs, large, below_axes=True)))
            sizes.append(large)
    both = [parted(result) for result in results]
    tensors, constants = [carried(outputs) for outputs, _ in both], [values for _, values in both]
    output_names = list(tensors[0])
    for other in tensors[1:]:
        if list(other) != output_names:
            raise BadRequest(
                f"the model returns {', '.join(output_names)} at one size of its inputs, {', '.join(other)} at another",
                fix="let forward return the same parts at every size",
            )
    _check_constant(constants)
    known = {tuple(point[axis] for point in sizes): axis for axis in sizes[0]}
    outputs = tuple(_spec(name, [call_outputs[name] for call_outputs in tensors], known) for name in output_names)
    plain = call.by_position and takes_no_more(model.forward, len(inputs)) and all(map(is_flat, results))
    how = None if plain else replace(call, outputs=tuple(output_names))
    return Signature(inputs, outputs), how, constants[0]


def _check_constant(calls: Sequence[Mapping[str, object]]) -> None:
    """Raise BadRequest where a number or text that a model returns changes between calls: no copy could give it."""
    for name, value in calls[0].items():
        for other in calls[1:]:
            if name in other and repr(other[name]) != repr(value):  # NaN is alike
                raise BadRequest(
                    f"the model returns {name} as {value!r} at one size of its inputs, as {other[name]!r} at another, "
                    "and the formats carry tensors alone",
                    fix="let forward return it as a tensor, as in torch.tensor(...), or not at all",
                )


def _large_sizes(inputs: tuple[TensorSpec, ...], first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Choose a third size for axes whose first two are near.
    A network that halves an axis five times still tells it from the first: 11 and 12 both become 6, and 36 and 45 are
    both padded to 48. The batch is not halved, and an axis whose two sizes lie far apart needs no third."""
    bounds, batch = bounds_of(inputs), batch_axis(inputs)
    limits = {axis: bounds.get(axis, ANY_SIZE) for axis in first if axis != batch}
    near = {axis: own for axis, own in limits.items() if abs(first[axis] - second[axis]) < max(_MORE, 2 * own.step)}
    return {axis: near[axis].nearest(at + _MORE) if axis in near else at for axis, at in first.items()}


def _call(model: torch.nn.Module, call: Call, inputs: Mapping[str, Array]) -> object:
    import torch

    return call.run(model, [torch.from_numpy(inputs[name]) for name in call.inputs])


def _spec(name: str, values: Sequence[torch.Tensor], known: Mapping[tuple[int, ...], str]) -> TensorSpec:
    """Return the spec of an output by its values in several calls. `known`: axes by their sizes in those calls."""
    if len({value.ndim for value in values}) > 1:
        raise BadRequest(f"the rank of the output {name} changes with the size of an input", fix=_NAME_OUTPUTS)
    shape = [
        sizes[0] if len(set(sizes)) == 1 else known.get(sizes, f"{name}_{at}")
        for at, sizes in enumerate(zip(*(value.shape for value in values), strict=True))
    ]
    return TensorSpec(name, carried_dtype(f"the output {name}", values[0].dtype), tuple(shape))


def carried_dtype(tensor: str, dtype: torch.dtype) -> str:
    """Return the numpy name of a dtype.
    Raises BadRequest where the formats do not carry it, with a fix for its kind."""
    try:
        return served_dtype(str(dtype))
    except ValueError as error:
        fix = "torch.view_as_real(...): real and imaginary parts" if dtype.is_complex else "float32"
        raise BadRequest(
            f"{tensor} is {dtype}, which the formats do not carry", fix=f"let the model take and return {fix}"
        ) from error
