"""ONNX from a model's source by torch's older exporter, which is wrong on other operators than the dynamo exporter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from ...models.formats import Format
from ...models.job import Job
from ...models.probes.user_samples import draws_user_samples
from ...models.signature import Signature
from ...models.sources import read_source
from ..conversion_records import OnnxExportOptions
from ..lazy_import import torch
from ..patches.torch_export.temporary_settings import followed_data, unchecked_distributions
from ..patches.torch_export.traced_replacements import swap_traced_functions
from ..patches.torch_onnx_torchscript.multi_index import without_idle_slices
from ..patches.torch_onnx_torchscript.symbolics import mend_older_exporter
from ..to_pytorch.constant_weights import model_to_export
from ..to_pytorch.model_calls import example_inputs
from ..to_pytorch.tracing import returning_tuple, script_or_module
from .finish_model import check_names_differ, finish

TORCHSCRIPT_OPSET = 17


@draws_user_samples
def onnx_from_source(job: Job) -> Mapping[str, Any]:
    """Export the source in inputs["source"] with torch's older exporter, which traces it.

    A model whose control flow may depend on data is compiled first. Facts: note, a warning about a trace.
    """
    source = read_source(job.inputs["source"])
    check_names_differ(source.signature)
    inputs = example_inputs(source.signature)
    mend_older_exporter()
    model, note = script_or_module(model_to_export(job.inputs["source"]), source)
    with (
        warnings.catch_warnings(),
        swap_traced_functions(),
        followed_data(),
        without_idle_slices(),
        unchecked_distributions(),
    ):
        warnings.simplefilter("ignore", DeprecationWarning)  # of the exporter itself, which is used on purpose
        if isinstance(model, torch.jit.ScriptModule):
            model = returning_tuple(model, source.signature)
        write_by_older_exporter(job, model, inputs, source.signature)
    return {**finish(job, source.signature), "note": note}


def write_by_older_exporter(
    job: Job, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], signature: Signature
) -> None:
    """Export a module, by default at TORCHSCRIPT_OPSET; the caller finishes the model."""
    torch.onnx.export(
        model,
        inputs,
        str(job.out / Format.ONNX.spec.payload),
        dynamo=False,
        opset_version=OnnxExportOptions.from_json(job.options).opset or TORCHSCRIPT_OPSET,
        input_names=[spec.name for spec in signature.inputs],
        output_names=[spec.name for spec in signature.outputs],
        dynamic_axes={spec.name: spec.dynamic_axes for spec in (*signature.inputs, *signature.outputs)},
    )
