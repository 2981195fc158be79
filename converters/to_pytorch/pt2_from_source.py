"""Exported program (.pt2) from a model's source: the capture that keeps dynamic axes as constraints."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...models.errors import Refused
from ...models.exported_program import save_program
from ...models.formats import Format, Target
from ...models.job import Job
from ...models.probes.user_samples import draws_user_samples
from ...models.signature import Signature
from ...models.sources import read_source
from ..patches import torch_messages
from ..patches.torch_export.integer_conversions import open_numbers
from ..write_converted import write_converted
from .constant_weights import model_to_export
from .export_reasons import OneWay, held, left_out, one_way, refusal
from .guards import lift_guards
from .model_calls import export_once
from .size_bounds import settle_bounds

if TYPE_CHECKING:
    import torch


@draws_user_samples
def pt2_from_source(job: Job) -> Mapping[str, Any]:
    """Capture the source with torch.export, every named axis dynamic.
    Facts: nodes; limits, the sizes beyond which the model itself raises, by axis. Raises Refused if an axis that the
    signature calls dynamic cannot be, or the model's control flow depends on data."""
    source = read_source(job.inputs["source"])
    model = model_to_export(job.inputs["source"])
    program, limits = program_for_all_sizes(model, source.signature)
    write_program(program, source.signature, job)
    return {"nodes": len(program.graph.nodes), "limits": limits}


def program_for_all_sizes(
    model: torch.nn.Module, signature: Signature
) -> tuple[torch.export.ExportedProgram, Mapping[str, list[int]]]:
    """Export a program for all sizes that the signature allows, whatever relation the axes have, and the limits.
    No single size between the bounds is excluded."""
    program, limits = _program_within_bounds(model, signature)
    answer_everywhere(program, model, signature)
    return program, limits


def write_bounded(
    module: torch.nn.Module, model: torch.nn.Module, signature: Signature, job: Job
) -> torch.export.ExportedProgram:
    """Export `module`, which stands for `model`, and write the program, with bounds if it is valid for fewer sizes."""
    program = export(module, signature)
    signature = settle_bounds(program, model, signature)
    answer_everywhere(program, model, signature, module)
    write_program(program, signature, job)
    return program


def write_program(program: torch.export.ExportedProgram, signature: Signature, job: Job) -> None:
    """Write a program as the artifact of a step."""
    save_program(program, signature, job.out / Format.PT2.spec.payload)
    write_converted(job, Target(Format.PT2), signature)


def answer_everywhere(
    program: torch.export.ExportedProgram,
    model: torch.nn.Module,
    signature: Signature,
    traced: torch.nn.Module | None = None,
) -> None:
    """Make a program answer wherever the model does, see lift_guards. `traced`: its module, if not the model.
    Raises OneWay if it would answer otherwise than the model does."""
    if excluded := lift_guards(program, model, signature):
        refused = left_out(excluded[0], signature, traced or model)
        refused.left_out = excluded[1]
        raise refused


def _program_within_bounds(
    model: torch.nn.Module, signature: Signature
) -> tuple[torch.export.ExportedProgram, Mapping[str, list[int]]]:
    """Export a program for every size within the signature's bounds, and the limits that the model itself has.
    Inside a deep network a small picture is one pixel wide, and torch.export takes a size of 1 for a constant. So a
    program that holds for small sizes only is exported again from a larger example."""
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
    raise one_way(*coverage.narrow, signature, model)


def other_way(model: torch.nn.Module, signature: Signature) -> OneWay | None:
    """Return why one trace of the model does not hold for every size that the signature allows.
    None if torch.export sees no branch on a size, or cannot export the model at all."""
    try:
        program_for_all_sizes(model, signature)
    except OneWay as refused:
        return refused
    except Exception:  # noqa: BLE001  (any other failure is no branch on a size)
        return None
    return None


_LARGER_BY = 64  # added to the sizes of an example: five halvings leave more than one


def export(model: torch.nn.Module, signature: Signature, more: int = 0) -> torch.export.ExportedProgram:
    """Export `model` for inputs of this signature. `more`: see example_inputs.
    Raises Refused with the line of the model at which torch.export stops."""
    try:
        return export_once(model, signature, more)
    except Exception as error:
        # Perhaps an int(...) or len(...) of a size. Models that are captured without it keep their programs.
        if torch_messages.SPECIALIZED.search(str(error)):
            with contextlib.suppress(Exception), open_numbers(model):
                return export_once(model, signature, more)
        refused = refusal(error, model, signature)
        if refused is None:
            raise
        raise refused from error
