"""PyTorch to an exported program (.pt2): the capture that keeps dynamic axes as constraints."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...models.artifact import write_artifact
from ...models.errors import Refused
from ...models.exported_program import save_program
from ...models.formats import PAYLOAD, Format, Target
from ...models.job import Job
from ...models.probes.sizes import example_sizes, other_axes
from ...models.signature import ANY_SIZE, Signature
from ...models.sources import read_source
from ..patches.torch_export.distributions import unchecked_distributions
from ..patches.torch_export.integer_conversions import open_numbers
from ..patches.torch_export.open_sizes import keeping_sizes
from ..patches.torch_export.rounded_sizes import write_out_rounding
from ..patches.torch_export.tensor_data import followed_data
from .constant_weights import model_to_export
from .export_reasons import OneWay, held, left_out, one_way, refusal
from .guards import lift_guards
from .size_bounds import settle

if TYPE_CHECKING:
    import torch

EXAMPLE_BATCH = 3  # 0 and 1 are specialised by torch.export; 2 can be taken for a constant of the model


def pt2_from_source(job: Job) -> Mapping[str, Any]:
    """Capture the source with torch.export, every named axis dynamic. Facts: nodes; limits, by axis the sizes beyond
    which the model itself raises.

    Raises Refused where an axis that the signature calls dynamic cannot be, or the model asks its data which way to go.
    """
    source = read_source(job.inputs["source"])
    model = model_to_export(job.inputs["source"])
    program, limits = _whole_program(model, source.signature)
    save_program(program, source.signature, job.out / PAYLOAD[Format.PT2])
    write_artifact(job.out, Target(Format.PT2), source.signature)
    return {"nodes": len(program.graph.nodes), "limits": limits}


def _whole_program(
    model: torch.nn.Module, signature: Signature
) -> tuple[torch.export.ExportedProgram, Mapping[str, list[int]]]:
    """A program that is good for every size that the signature allows, single ones between them, too, and whatever
    relation the axes have."""
    program, limits = _held_program(model, signature)
    answer_everywhere(program, model, signature)
    return program, limits


def answer_everywhere(
    program: torch.export.ExportedProgram,
    model: torch.nn.Module,
    signature: Signature,
    traced: torch.nn.Module | None = None,
) -> None:
    """Let a program answer wherever the model does: see lift_guards. `traced`: what it was made of, if not the model.

    Raises OneWay where it would not answer as the model does.
    """
    if found := lift_guards(program, model, signature):
        of = traced or model
        refused = left_out(found[0], signature, of, lambda: _attempt(of, signature))
        refused.left_out = found[1]
        raise refused


def _held_program(
    model: torch.nn.Module, signature: Signature
) -> tuple[torch.export.ExportedProgram, Mapping[str, list[int]]]:
    """A program that is good for every size that the signature allows, and the limits that the model itself has.

    Inside of a deep network a small picture is one pixel wide, and torch.export takes a size of 1 for a constant. So a
    program that is good for small sizes alone is made again from a larger example.
    """
    program = export(model, signature)
    settle(program, model, signature)
    found = held(program, model, signature)
    if found.narrow is None:
        return program, found.limits
    with contextlib.suppress(Refused):  # the first reason is the one to tell
        larger = export(model, signature, _MORE)
        settle(larger, model, signature)
        again = held(larger, model, signature)
        if again.narrow is None:
            return larger, again.limits
    raise one_way(*found.narrow, signature, model, lambda: _attempt(model, signature))


def other_way(model: torch.nn.Module, signature: Signature) -> OneWay | None:
    """Why one trace of the model does not hold for every size that the signature allows; None where torch.export sees
    no branch on a size, or does not carry the model at all."""
    try:
        _whole_program(model, signature)
    except OneWay as refused:
        return refused
    except Exception:  # noqa: BLE001  (whatever it stops at is no branch on a size)
        return None
    return None


_MORE = 64  # added to the sizes of an example: five halvings leave more than one


def export(model: torch.nn.Module, signature: Signature, more: int = 0) -> torch.export.ExportedProgram:
    """The exported program of `model` for inputs of this signature. `more`: see example_inputs.

    Raises Refused with the line of the model that torch.export stops at.
    """
    try:
        return _attempt(model, signature, more)
    except Exception as error:
        if "specialized" in str(error):  # an int(...) or len(...), it may be: what was captured without stays as it was
            with contextlib.suppress(Exception), open_numbers(model):
                return _attempt(model, signature, more)
        refused = refusal(error, model, signature, lambda: _attempt(model, signature))
        if refused is None:
            raise
        raise refused from error


def _attempt(model: torch.nn.Module, signature: Signature, more: int = 0) -> torch.export.ExportedProgram:
    import torch

    # A block without gradients inside the model else becomes one that cannot be loaded again.
    with torch.no_grad(), keeping_sizes(), followed_data(), unchecked_distributions():
        program = torch.export.export(
            model, example_inputs(signature, more=more), dynamic_shapes=dynamic_shapes(signature), strict=False
        )
    write_out_rounding(program)
    return program


def example_inputs(signature: Signature, batch: int = EXAMPLE_BATCH, more: int = 0) -> tuple[torch.Tensor, ...]:
    """One tensor per input, in order; named axes other than the batch get sizes of their own, larger by `more` or so as
    far as their bounds allow."""
    import torch

    from ...models.probes.random_inputs import sample_tensors

    sizes, bounds = example_sizes(signature.inputs, batch), signature.bounds
    for axis in other_axes(signature.inputs) if more else ():
        own = bounds.get(axis, ANY_SIZE).filled
        sizes[axis] = own.nearest(sizes[axis] + own.low * -(-more // own.low))  # where it takes multiples, a multiple
    arrays = sample_tensors(signature.inputs, sizes)
    return tuple(torch.from_numpy(arrays[spec.name]) for spec in signature.inputs)


def dynamic_shapes(signature: Signature) -> tuple[dict[int, Any], ...]:
    """Per input, position -> torch Dim of each dynamic axis, with its bounds; one name is one Dim.

    Dim.DYNAMIC and not Dim(name): the latter turns a relation between two axes into an error.
    """
    from torch.export import Dim

    hints = {axis: Dim.DYNAMIC(min=low, max=high) for axis, (low, high) in signature.bounds.items()}
    return tuple(
        {at: hints.get(axis, Dim.DYNAMIC) for at, axis in spec.dynamic_axes.items()} for spec in signature.inputs
    )
