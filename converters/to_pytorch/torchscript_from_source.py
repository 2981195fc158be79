"""PyTorch to TorchScript, frozen: by tracing, or compiled from its source where data decides its way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...models.artifact import write_artifact
from ...models.formats import PAYLOAD, Format, Target
from ...models.job import Job
from ...models.sources import read_source
from .constant_weights import model_to_export
from .pt2_from_source import example_inputs
from .tracing import call_of, quiet, script_or_trace, unsaved


def torchscript_from_source(job: Job) -> Mapping[str, Any]:
    """Trace or compile, and freeze the source. Facts: note, what must be said of a trace.

    A branch on sizes is found by torch.export, and compiled with both its sides.
    Not `optimize_for_inference`: what it makes can fail to load again (docs/design/torchscript.md).

    Raises Refused with the line of the model that TorchScript does not take.
    """
    import torch

    source = read_source(job.inputs["source"])
    model = model_to_export(job.inputs["source"])
    made, note = script_or_trace(model, source.signature, call_of(source), example_inputs(source.signature))
    if note:
        print(note)
    try:
        with quiet():
            torch.jit.save(torch.jit.freeze(made), str(job.out / PAYLOAD[Format.TORCHSCRIPT]))
    except RuntimeError as error:
        refused = unsaved(error)
        if refused is None:
            raise
        raise refused from error
    write_artifact(job.out, Target(Format.TORCHSCRIPT), source.signature)
    return {"note": note}
