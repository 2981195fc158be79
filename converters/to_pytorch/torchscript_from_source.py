"""Frozen TorchScript from a model's source: traced, or compiled where its control flow depends on data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...models.formats import Format, Target
from ...models.job import Job
from ...models.probes.user_samples import draws_user_samples
from ...models.sources import read_source
from ..write_converted import write_converted
from .constant_weights import model_to_export
from .export_reasons import explained
from .tracing import refusal_to_save, script_or_trace, without_deprecation


@draws_user_samples
def torchscript_from_source(job: Job) -> Mapping[str, Any]:
    """Trace or compile the source, and freeze it. Facts: note, a warning about a trace.
    Torch.export finds a branch on sizes, which is then compiled with both its sides. `optimize_for_inference` is not
    used: its result can fail to load again (docs/design/torchscript.md). Raises Refused with the line of the model that
    TorchScript refuses."""
    import torch

    source = read_source(job.inputs["source"])
    model = model_to_export(job.inputs["source"])
    script, note = script_or_trace(model, source)
    if note:
        print(note)
    with explained(refusal_to_save), without_deprecation():
        torch.jit.save(torch.jit.freeze(script), str(job.out / Format.TORCHSCRIPT.spec.payload))
    write_converted(job, Target(Format.TORCHSCRIPT), source.signature)
    return {"note": note}
