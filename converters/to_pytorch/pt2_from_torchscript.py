"""Exported program from a TorchScript archive, for a model whose Python code is not at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...models.artifact import Artifact, read_artifact
from ...models.errors import Refused
from ...models.job import Job
from ...models.probes.user_samples import draws_user_samples
from ..patches import private_torch
from .model_calls import example_inputs
from .pt2_from_source import write_bounded
from .tracing import without_deprecation

if TYPE_CHECKING:
    import torch


@draws_user_samples
def pt2_from_torchscript(job: Job) -> Mapping[str, Any]:
    """Convert the module in inputs["source"] with torch's own converter, and export the result again.
    The second export makes the signature's axes dynamic; the converter chooses others. Raises Refused if the converter
    fails, which is a private part of torch."""
    import torch

    source = read_artifact(job.inputs["source"])
    module = load_archive(source)
    with without_deprecation(), torch.no_grad():
        try:
            converted = private_torch.TS2EPConverter(module, example_inputs(source.signature)).convert()
        except Exception as error:
            message = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise Refused(
                f"torch's converter of TorchScript failed: {message}", fix="name the model's Python code, or serve ONNX"
            ) from error
    program = write_bounded(converted.module(), module, source.signature, job)
    return {"nodes": len(program.graph.nodes)}


def load_archive(source: Artifact) -> torch.jit.ScriptModule:
    """Load the module in an artifact, in evaluation mode."""
    import torch

    with without_deprecation():
        module: torch.jit.ScriptModule = torch.jit.load(source.path, map_location="cpu")  # type: ignore[no-untyped-call]
    return module.eval()
