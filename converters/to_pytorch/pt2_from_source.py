"""Exported program (.pt2) from a model's source: the capture that keeps dynamic axes as constraints."""

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
from ..patches import torch_messages
from ..patches.torch_export.integer_conversions import open_numbers
from ..patches.torch_export.open_sizes import keeping_sizes
from ..patches.torch_export.rounded_sizes import write_out_rounding
from ..patches.torch_export.temporary_settings import followed_data, unchecked_distributions
from .constant_weights import model_to_export
from .export_reasons import OneWay, held, left_out, one_way, refusal
from .guards import lift_guards
from .size_bounds import settle_bounds

if TYPE_CHECKING:
    import torch

EXAMPLE_BATCH = 3  # 0 and 1 are specialised by torch.export; 2 can be taken for a constant of the model


def pt2_from_source(job: Job) -> Mapping[str, Any]:
    """Capture the source with torch.export, every named axis dynamic.

    Facts: nodes; limits, the sizes beyond which the model itself raises, by axis.

    Raises Refused if an axis that the signature calls dynamic cannot be, or the model's control flow depends on data.
    """
    source = read_source(job.inputs["source"])
    model = model_to_export(job.inputs["source"])
    program, limits = _program_for_all_sizes(model, source.signature)
    save_program(program, source.signature, job.out / PAYLOAD[Format.PT2])
    write_artifact(job.out, Target(Format.PT2), source.signature)
    return {"nodes": len(program.graph.nodes), "limits": limits}


def _program_for_all_sizes(
    model: torch.nn.Module, signature: Signature
) -> tuple[torch.export.ExportedProgram, Mapping[str, list[int]]]:
    """Export a program for all sizes that the signature allows, whatever relation the axes have, and the limits.

    No single size between the bounds is excluded.
    """
    program, limits = _program_within_bounds(model, signature)
    answer_everywhere(program, model, signature)
    return program, limits


def answer_everywhere(
    program: torch.export.ExportedProgram,
    model: torch.nn.Module,
    signature: Signature,
    traced: torch.nn.Module | None = None,
) -> None:
    """Make a program answer wherever the model does, see lift_guards. `traced`: its module, if not the model.

    Raises OneWay if it would answer otherwise than the model does.
    """
    if excluded := lift_guards(program, model, signature):
        exported = traced or model
        refused = left_out(excluded[0], signature, exported, lambda: _export_once(exported, signature))
        refused.left_out = excluded[1]
        raise refused


def _program_within_bounds(
    model: torch.nn.Module, signature: Signature
) -> tuple[torch.export.ExportedProgram, Mapping[str, list[int]]]:
    """Export a program for every size within the signature's bounds, and the limits that the model itself has.

    Inside a deep network a small picture is one pixel wide, and torch.export takes a size of 1 for a constant. So a
    program that holds for small sizes only is exported again from a larger example.
    """
    program = export(model, signature)
    settle_bounds(program, model, signature)
    coverage = held(program, model, signature)
    if coverage.narrow is None:
        return program, coverage.limits
    with contextlib.suppress(Refused):  # the first refusal is the one to report
        wider = export(model, signature, _LARGER_BY)
        settle_bounds(wider, model, signature)
        wider_coverage = held(wider, model, signature)
        if wider_coverage.narrow is None:
            return wider, wider_coverage.limits
    raise one_way(*coverage.narrow, signature, model, lambda: _export_once(model, signature))


def other_way(model: torch.nn.Module, signature: Signature) -> OneWay | None:
    """Return why one trace of the model does not hold for every size that the signature allows.

    None if torch.export sees no branch on a size, or cannot export the model at all.
    """
    try:
        _program_for_all_sizes(model, signature)
    except OneWay as refused:
        return refused
    except Exception:  # noqa: BLE001  (any other failure is no branch on a size)
        return None
    return None


_LARGER_BY = 64  # added to the sizes of an example: five halvings leave more than one


def export(model: torch.nn.Module, signature: Signature, more: int = 0) -> torch.export.ExportedProgram:
    """Export `model` for inputs of this signature. `more`: see example_inputs.

    Raises Refused with the line of the model at which torch.export stops.
    """
    try:
        return _export_once(model, signature, more)
    except Exception as error:
        # Perhaps an int(...) or len(...) of a size. Models that are captured without it keep their programs.
        if torch_messages.SPECIALIZED.search(str(error)):
            with contextlib.suppress(Exception), open_numbers(model):
                return _export_once(model, signature, more)
        refused = refusal(error, model, signature, lambda: _export_once(model, signature))
        if refused is None:
            raise
        raise refused from error


def _export_once(model: torch.nn.Module, signature: Signature, more: int = 0) -> torch.export.ExportedProgram:
    import torch

    # With gradients, a no_grad block inside the model becomes an operator that cannot be loaded again.
    with torch.no_grad(), keeping_sizes(), followed_data(), unchecked_distributions():
        program = torch.export.export(
            model, example_inputs(signature, more=more), dynamic_shapes=dynamic_shapes(signature), strict=False
        )
    write_out_rounding(program)
    return program


def example_inputs(signature: Signature, batch: int = EXAMPLE_BATCH, more: int = 0) -> tuple[torch.Tensor, ...]:
    """Return one tensor per input, in order. Named axes other than the batch get distinct sizes.

    `more` is added to these sizes, as far as their bounds and multiples allow.
    """
    import torch

    from ...models.probes.random_inputs import sample_tensors

    sizes, bounds = example_sizes(signature.inputs, batch), signature.bounds
    for axis in other_axes(signature.inputs) if more else ():
        filled = bounds.get(axis, ANY_SIZE).filled
        sizes[axis] = filled.nearest(sizes[axis] + filled.low * -(-more // filled.low))  # keeps multiples
    arrays = sample_tensors(signature.inputs, sizes)
    return tuple(torch.from_numpy(arrays[spec.name]) for spec in signature.inputs)


def dynamic_shapes(signature: Signature) -> tuple[dict[int, Any], ...]:
    """Return for each input the torch Dim of each dynamic axis by position, with its bounds; one name is one Dim.

    Uses Dim.DYNAMIC, because Dim(name) turns a relation between two axes into an error.
    """
    from torch.export import Dim

    hints = {axis: Dim.DYNAMIC(min=low, max=high) for axis, (low, high) in signature.bounds.items()}
    return tuple(
        {at: hints.get(axis, Dim.DYNAMIC) for at, axis in spec.dynamic_axes.items()} for spec in signature.inputs
    )
