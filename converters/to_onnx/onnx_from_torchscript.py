"""TorchScript to ONNX: where a model is there as an archive only, without its Python."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...models.artifact import read_artifact
from ...models.errors import Refused
from ...models.job import Job
from ..patches.torch_onnx_torchscript.full_slices import without_idle_slices
from ..patches.torch_onnx_torchscript.symbolics import mend_older_exporter
from ..to_pytorch.pt2_from_source import example_inputs
from ..to_pytorch.pt2_from_torchscript import load_archive
from ..to_pytorch.script_outputs import giving_a_tuple
from .onnx_from_source import check_names_differ, finish, write_by_older_exporter

if TYPE_CHECKING:
    import torch


def onnx_from_torchscript(job: Job) -> Mapping[str, Any]:
    """Export the module in inputs["source"] with torch's older exporter. Control flow in it becomes ONNX's."""
    source = read_artifact(job.inputs["source"])
    check_names_differ(source.signature)
    module = load_archive(source)
    mend_older_exporter()
    with _told(module), warnings.catch_warnings(), without_idle_slices():
        warnings.simplefilter("ignore", DeprecationWarning)  # the exporter as a whole, and TorchScript itself
        made = giving_a_tuple(module, source.signature)
        path = write_by_older_exporter(job, made, example_inputs(source.signature), source.signature)
    return finish(job.out, path, source.signature)


@contextmanager
def _told(module: torch.jit.ScriptModule) -> Iterator[None]:
    """Turn whatever the exporter raises over torch.nn's attention, where that was compiled, into a sentence."""
    try:
        yield
    except Exception as error:
        graph: Any = module.inlined_graph  # not all of it is in its types
        if not graph.findNode("aten::is_autocast_enabled", recurse=True):
            raise
        raise Refused(
            "the archive holds torch.nn's attention compiled, with a fast and a slow way to choose from as it runs: "
            "torch's exporter follows neither",
            fix="save a trace, torch.jit.trace(model, example) under torch.no_grad(), or name the model's Python code",
        ) from error
