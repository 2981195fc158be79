"""What a model takes and gives, found out by calling it. Worker only."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import BadRequest
from ..probes.random_inputs import sample_tensors
from ..probes.sizes import two_sizes
from ..signature import ANY_SIZE, Array, Signature, TensorSpec, batch_axis, bounds_of, served_dtype
from .call_convention import Call, call_by_name, carried, is_flat, parted, takes_no_more

if TYPE_CHECKING:
    import torch

_NAMED = "name the outputs in the signature of a Recipe; `transload new NAME` writes one to start from"


def infer_signature(
    model: torch.nn.Module, inputs: tuple[TensorSpec, ...], call: Call | None = None
) -> tuple[Signature, Call | None, Mapping[str, object]]:
    """The signature of a model with these inputs, from calls in which every dynamic axis has another size; how it is
    called, or None where it takes its inputs by position and gives a tensor, or a plain tuple or list of them; and the
    numbers and texts among its outputs, which are alike in all calls and no outputs of a copy.

    `call`: how the inputs go in, where it is known (its outputs are not yet); else it is found by their names.
    An axis of an output that changes with an input's axis has its name, one that changes otherwise a name of its own.
    Outputs are called by their path in what forward returns (calling.parted).

    Raises BadRequest where the inputs do not go in, or the outputs are not tensors that numpy knows, or constants.
    """
    names = tuple(spec.name for spec in inputs)
    call = call or call_by_name(model.forward, names, f"forward of {type(model).__name__}")
    sizes = [*two_sizes(inputs)]
    given = [_given(model, call, sample_tensors(inputs, each)) for each in sizes]
    large = _large(inputs, *sizes)
    if large != sizes[0]:
        with contextlib.suppress(Exception):  # it may be larger than the model takes
            given.append(_given(model, call, sample_tensors(inputs, large)))
            sizes.append(large)
    both = [parted(each) for each in given]
    found, constants = [carried(each) for each, _ in both], [each for _, each in both]
    names_found = list(found[0])
    for other in found[1:]:
        if list(other) != names_found:
            raise BadRequest(
                f"the model returns {', '.join(names_found)} at one size of its inputs, {', '.join(other)} at another",
                fix="let forward return the same parts at every size",
            )
    _check_constant(constants)
    known = {tuple(each[axis] for each in sizes): axis for axis in sizes[0]}
    outputs = tuple(_spec(name, [each[name] for each in found], known) for name in names_found)
    plain = call.by_position and takes_no_more(model.forward, len(inputs)) and all(map(is_flat, given))
    how = None if plain else replace(call, outputs=tuple(names_found))
    return Signature(inputs, outputs), how, constants[0]


def _check_constant(found: Sequence[Mapping[str, object]]) -> None:
    """Hold the numbers and texts that a model returned in several calls against each other: what changes is an answer,
    and no copy could give it.

    Raises BadRequest.
    """
    for name, value in found[0].items():
        for other in found[1:]:
            if name in other and repr(other[name]) != repr(value):  # NaN is alike
                raise BadRequest(
                    f"the model returns {name} as {value!r} at one size of its inputs, as {other[name]!r} at another, "
                    "and the formats carry tensors alone",
                    fix="let forward return it as a tensor, as in torch.tensor(...), or not at all",
                )


def _large(inputs: tuple[TensorSpec, ...], first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Sizes that a network which halves an axis five times over still tells from the first: 11 and 12 become 6 both.
    The batch is not halved, and an axis whose two sizes lie far apart needs no third."""
    bounds, batch = bounds_of(inputs), batch_axis(inputs)
    near = {axis for axis in first if axis != batch and abs(first[axis] - second[axis]) == 1}
    return {axis: bounds.get(axis, ANY_SIZE).nearest(at + _MORE) if axis in near else at for axis, at in first.items()}


_MORE = 64


def _given(model: torch.nn.Module, call: Call, inputs: Mapping[str, Array]) -> object:
    import torch

    arguments, keywords = call.bind([torch.from_numpy(inputs[name]) for name in call.inputs])
    with torch.no_grad():
        return model(*arguments, **keywords)


def _spec(name: str, found: Sequence[torch.Tensor], known: Mapping[tuple[int, ...], str]) -> TensorSpec:
    """The spec of an output, of what it was in each of several calls. `known`: axes by their sizes in those calls."""
    if len({each.ndim for each in found}) > 1:
        raise BadRequest(f"the rank of the output {name} changes with the size of an input", fix=_NAMED)
    shape = [
        sizes[0] if len(set(sizes)) == 1 else known.get(sizes, f"{name}_{at}")
        for at, sizes in enumerate(zip(*(each.shape for each in found), strict=True))
    ]
    return TensorSpec(name, carried_dtype(f"the output {name}", found[0].dtype), tuple(shape))


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
