"""Captures of a model in another interpreter, made by its own torch or TensorFlow. Nothing of it is built here."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..models.errors import BadRequest, Refused
from ..models.formats import Format, Target
from ..models.job import Job
from ..models.loading.call_convention import Call, Leaf, Tree
from ..models.probes.user_samples import draws_user_samples
from ..models.sources import Source, read_source
from ..models.user_python.module_proxy import make_proxy, with_weights_there
from .readers.saved_model.saved_model_folder import read_saved_model
from .to_onnx.finish_model import check_names_differ, finish
from .to_pytorch.model_calls import example_inputs
from .to_pytorch.pt2_from_source import write_bounded
from .user_python_program import rebuild_program
from .write_converted import write_converted

if TYPE_CHECKING:
    import torch


@draws_user_samples
def torchscript_from_user_python(job: Job) -> Mapping[str, Any]:
    """Let the model's own interpreter trace or compile it; torch.jit.load reads what any earlier torch wrote.
    Facts: note, a warning about the trace."""
    source = read_source(job.inputs["source"])
    reply, _ = _capture(job, source, "torchscript", job.out / Format.TORCHSCRIPT.spec.payload)
    write_converted(job, Target(Format.TORCHSCRIPT), source.signature)
    return {"note": reply.get("note") or None}


@draws_user_samples
def pt2_from_user_python(job: Job) -> Mapping[str, Any]:
    """Let the model's own interpreter export it, make the program's calls again with our operators, and export these.
    Facts: nodes. Raises Refused where their torch cannot export it, or ours has not its operators."""
    source = read_source(job.inputs["source"])
    reply, tensors = _capture(job, source, "program", job.out)
    module = rebuild_program(reply.get("graph"), tensors, [spec.name for spec in source.signature.inputs])
    program = write_bounded(module, module, source.signature, job)
    return {"nodes": len(program.graph.nodes)}


@draws_user_samples
def onnx_from_user_python(job: Job) -> Mapping[str, Any]:
    """Let the model's own interpreter export it to ONNX, by the exporter that traces."""
    source = read_source(job.inputs["source"])
    check_names_differ(source.signature)
    _capture(job, source, "onnx", job.out / Format.ONNX.spec.payload)
    return finish(job, source.signature)


@draws_user_samples
def saved_model_from_user_python(job: Job) -> Mapping[str, Any]:
    """Let the model's own interpreter save it as a SavedModel, which any later TensorFlow reads.
    Facts: tensorflow, the version that wrote it. Raises Refused where an operator in it may do more than compute."""
    source = read_source(job.inputs["source"])
    payload = job.out / Format.SAVED_MODEL.spec.payload
    reply, _ = _capture(job, source, "saved-model", payload)
    shutil.rmtree(payload / "debug", ignore_errors=True)
    try:
        read_saved_model(payload)
    except BadRequest as error:
        raise Refused(error.what, fix="write the model without that operator") from error
    write_converted(job, Target(Format.SAVED_MODEL), source.signature)
    return {"tensorflow": str(reply.get("tensorflow", ""))}


def _capture(job: Job, source: Source, kind: str, path: Path) -> tuple[Mapping[str, Any], list[torch.Tensor]]:
    """Build the source in its interpreter, and let that write a capture to `path`. Returns what it says of it.
    Raises Refused where it cannot."""
    signature = source.signature
    names = [spec.name for spec in signature.inputs]
    plain = Call(tuple(names), tuple(map(Leaf, names)), outputs=tuple(spec.name for spec in signature.outputs))
    call = plain if source.call is None else Call.from_json(source.call)
    module = make_proxy(source.ref)
    with closing(module.process):
        with_weights_there(module, job.inputs["source"], None)
        try:
            value, weights = module.process.ask(
                "capture",
                example_inputs(signature),
                stage=f"capturing the model as {kind}",
                kind=kind,
                path=str(path),
                arguments=_tree_of(call.arguments, names),
                keywords=_tree_of(dict(call.keywords), names),
                inputs=names,
                outputs=list(call.outputs),
                axes=[{str(at): axis for at, axis in spec.dynamic_axes.items()} for spec in signature.inputs],
                bounds={axis: [low, high] for axis, (low, high, _) in signature.bounds.items()},
                plain=source.call is None,
            )
        except BadRequest as error:
            raise Refused(error.what, fix="see what the other routes gave; the log has the traceback") from error
    return value, weights


def _tree_of(tree: Tree, names: Sequence[str]) -> Mapping[str, Any]:
    """Encode arguments as inside/trees.py does, with each input by its number in the signature."""
    if isinstance(tree, Leaf):
        return {"tensor": names.index(tree.name)}
    if isinstance(tree, tuple | list):
        return {"tuple" if isinstance(tree, tuple) else "list": [_tree_of(part, names) for part in tree]}
    if isinstance(tree, dict):
        return {"dict": [[key, _tree_of(part, names)] for key, part in tree.items()]}
    return {"constant": tree}
