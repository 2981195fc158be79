"""PyTorch to an exported program (.pt2): the capture that keeps dynamic axes as constraints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..models.artifact import write_artifact
from ..models.formats import PAYLOAD, Format, Target
from ..models.job import Job
from ..models.signature import Signature
from ..models.sources import read_source
from .export_reasons import check_range, refusal

if TYPE_CHECKING:
    import torch

EXAMPLE_BATCH = 3  # 0 and 1 are specialised by torch.export; 2 can be taken for a constant of the model


def pt2_from_source(job: Job) -> Mapping[str, Any]:
    """Capture the source with torch.export, every named axis dynamic. Facts: nodes; limits, by axis the sizes beyond
    which the model itself raises.

    Raises Refused where an axis that the signature calls dynamic cannot be, or the model asks its data which way to go.
    """
    import torch

    from ..models.zoo.build import build_model

    source = read_source(job.inputs["source"])
    model = build_model(job.inputs["source"])
    program = export(model, source.signature)
    limits = check_range(program, model, source.signature, lambda: _attempt(model, source.signature))
    torch.export.save(program, job.out / PAYLOAD[Format.PT2])
    write_artifact(job.out, Target(Format.PT2), source.signature)
    return {"nodes": len(program.graph.nodes), "limits": limits}


def export(model: torch.nn.Module, signature: Signature) -> torch.export.ExportedProgram:
    """The exported program of `model` for inputs of this signature.

    Raises Refused with the line of the model that torch.export stops at.
    """
    try:
        return _attempt(model, signature)
    except Exception as error:
        refused = refusal(error, model, signature, lambda: _attempt(model, signature))
        if refused is None:
            raise
        raise refused from error


def _attempt(model: torch.nn.Module, signature: Signature) -> torch.export.ExportedProgram:
    import torch

    with torch.no_grad():  # a block without gradients inside the model else becomes one that cannot be loaded again
        return torch.export.export(
            model, example_inputs(signature), dynamic_shapes=dynamic_shapes(signature), strict=False
        )


def example_inputs(signature: Signature, batch: int = EXAMPLE_BATCH) -> tuple[torch.Tensor, ...]:
    """One tensor per input, in order; named axes other than the first get sizes of their own."""
    import torch

    from ..models.zoo.build import sample_inputs

    arrays = sample_inputs(signature, batch, seed=0)
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
