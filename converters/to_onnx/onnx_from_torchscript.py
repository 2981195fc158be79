"""ONNX from a TorchScript archive, for a model whose Python code is not at hand."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...models.artifact import read_artifact
from ...models.errors import Refused
from ...models.job import Job
from ...models.probes.user_samples import draws_user_samples
from ..lazy_import import torch
from ..patches.torch_onnx_torchscript.multi_index import without_idle_slices
from ..patches.torch_onnx_torchscript.symbolics import mend_older_exporter
from ..to_pytorch.model_calls import example_inputs
from ..to_pytorch.pt2_from_torchscript import load_archive
from ..to_pytorch.tracing import returning_tuple
from .finish_model import check_names_differ, finish
from .onnx_from_source import write_by_older_exporter


@draws_user_samples
def onnx_from_torchscript(job: Job) -> Mapping[str, Any]:
    """Export the module in inputs["source"] with torch's older exporter. Its control flow becomes ONNX's."""
    source = read_artifact(job.inputs["source"])
    check_names_differ(source.signature)
    module = load_archive(source)
    mend_older_exporter()
    with _explaining_compiled_attention(module), warnings.catch_warnings(), without_idle_slices():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the exporter and of TorchScript, used on purpose
        traced = returning_tuple(module, source.signature)
        write_by_older_exporter(job, traced, example_inputs(source.signature), source.signature)
    return finish(job, source.signature)


@contextmanager
def _explaining_compiled_attention(module: torch.jit.ScriptModule) -> Iterator[None]:
    """Turn an error of the exporter into Refused if the archive holds compiled attention of torch.nn."""
    try:
        yield
    except Exception as error:
        graph: Any = module.inlined_graph  # torch's stubs lack findNode
        if not graph.findNode("aten::is_autocast_enabled", recurse=True):
            raise
        raise Refused(
            "the archive holds torch.nn's attention compiled, with a fast and a slow way to choose from as it runs: "
            "torch's exporter follows neither",
            fix="save a trace, torch.jit.trace(model, example) under torch.no_grad(), or name the model's Python code",
        ) from error
