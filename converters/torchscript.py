"""PyTorch to TorchScript by tracing, frozen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ..models.artifact import write_artifact
from ..models.formats import PAYLOAD, Format, Target
from ..models.job import Job
from ..models.sources import read_source
from .torch_export import example_inputs


def torchscript_from_source(job: Job) -> Mapping[str, Any]:
    """Trace and freeze the source. A trace that took one side of a branch is found by the check at other batches
    that follows every route.

    Not `optimize_for_inference`: what it makes can fail to load again (docs/design/torchscript.md).
    """
    import torch

    from ..models.zoo.build import build_model

    source = read_source(job.inputs["source"])
    model = build_model(job.inputs["source"])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is deprecated as a whole, and still served
        # TracerWarnings go to the log: they name the lines of the model that the trace may have fixed.
        traced = torch.jit.trace(model, example_inputs(source.signature), strict=False)  # type: ignore[no-untyped-call]
        frozen = torch.jit.freeze(traced)
        torch.jit.save(frozen, str(job.out / PAYLOAD[Format.TORCHSCRIPT]))
    write_artifact(job.out, Target(Format.TORCHSCRIPT), source.signature)
    return {}
