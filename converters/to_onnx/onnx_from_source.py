"""PyTorch to ONNX by both of torch's exporters: wrong on different operators, each is the other's fallback."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...models.artifact import Artifact, read_artifact, write_artifact
from ...models.errors import Refused
from ...models.exported_program import load_program
from ...models.formats import PAYLOAD, Format, Target
from ...models.job import Job
from ...models.probes.sizes import empty_axes
from ...models.signature import Signature, TensorSpec
from ...models.sources import read_source
from ..patches.torch_export.distributions import unchecked_distributions
from ..patches.torch_export.tensor_data import followed_data
from ..patches.torch_export.traced_replacements import in_other_words
from ..patches.torch_onnx_dynamo.complex_numbers import complex_refused, mend_complexes
from ..patches.torch_onnx_dynamo.constant_algebra import compute_known
from ..patches.torch_onnx_dynamo.exact_rewrites import exactly
from ..patches.torch_onnx_dynamo.translations import translations
from ..patches.torch_onnx_dynamo.untranslated import untranslated
from ..patches.torch_onnx_torchscript.full_slices import without_idle_slices
from ..patches.torch_onnx_torchscript.symbolics import mend_older_exporter
from ..to_pytorch.constant_weights import model_to_export
from ..to_pytorch.pt2_from_source import example_inputs
from ..to_pytorch.script_outputs import giving_a_tuple
from ..to_pytorch.tracing import call_of, script_or_module
from .embed_weights import join
from .empty_axes import keep_zeros
from .reduction_axes import count_from_the_front
from .scripted_dtypes import mend_types
from .subgraphs import forget_sizes

if TYPE_CHECKING:
    import onnx
    import torch

DYNAMO_OPSET = 20  # Gelu and GridSample as operators of their own, and what onnxruntime and TensorFlow both carry
TORCHSCRIPT_OPSET = 17
_TARGET = Target(Format.ONNX)


def onnx_from_pt2(job: Job) -> Mapping[str, Any]:
    """Export a captured program with torch's dynamo exporter, at options["opset"] where it is there."""
    import torch

    source = read_artifact(job.inputs["source"])
    check_names_differ(source.signature)
    program = load_program(source.path)
    compute_known(program)
    mend_complexes()
    try:
        with exactly():
            exported = torch.onnx.export(
                program,
                dynamo=True,
                opset_version=job.options.get("opset", DYNAMO_OPSET),
                input_names=[spec.name for spec in source.signature.inputs],
                output_names=[_inner(spec) for spec in source.signature.outputs],
                optimize=True,
                verbose=False,
                custom_translation_table=translations(),
            )
    except Exception as error:
        if refused := complex_refused(error, program) or untranslated(error):
            raise refused from error
        raise
    if exported is None:
        raise Refused("torch.onnx.export returned no program", fix="read the log of this step")
    path = job.out / PAYLOAD[Format.ONNX]
    exported.save(str(path), external_data=True)  # written as they lie in memory, and not copied
    facts = finish(job.out, path, source.signature)
    join(path, PROTOBUF_LIMIT_BYTES)
    return facts


def onnx_from_source(job: Job) -> Mapping[str, Any]:
    """Export the source with torch's older exporter, which traces it, at options["opset"] where it is there. Where its
    way may depend on data it is compiled before. Facts: note, what must be said of a trace."""
    import torch

    source = read_source(job.inputs["source"])
    check_names_differ(source.signature)
    inputs = example_inputs(source.signature)
    mend_older_exporter()
    model, note = script_or_module(model_to_export(job.inputs["source"]), source.signature, call_of(source), inputs)
    with warnings.catch_warnings(), in_other_words(), followed_data(), without_idle_slices(), unchecked_distributions():
        warnings.simplefilter("ignore", DeprecationWarning)  # the exporter as a whole; it is the fallback on purpose
        if isinstance(model, torch.jit.ScriptModule):
            model = giving_a_tuple(model, source.signature)
        path = write_by_older_exporter(job, model, inputs, source.signature)
    return {**finish(job.out, path, source.signature), "note": note}


def write_by_older_exporter(
    job: Job, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], signature: Signature
) -> Path:
    """What torch's older exporter makes of a module, at options["opset"] where it is there; `finish` is left to do."""
    import torch

    path = job.out / PAYLOAD[Format.ONNX]
    torch.onnx.export(
        model,
        inputs,
        str(path),
        dynamo=False,
        opset_version=job.options.get("opset", TORCHSCRIPT_OPSET),
        input_names=[spec.name for spec in signature.inputs],
        output_names=[spec.name for spec in signature.outputs],
        dynamic_axes={spec.name: spec.dynamic_axes for spec in (*signature.inputs, *signature.outputs)},
    )
    return path


def check_names_differ(signature: Signature) -> None:
    """Raises Refused where an input and an output have one name, which ONNX keeps for one value."""
    both = {spec.name for spec in signature.inputs} & {spec.name for spec in signature.outputs}
    if both:
        raise Refused(
            f"an input and an output are both called {min(both)}, and ONNX has one value of a name",
            fix="rename that key of what forward returns, or that input",
        )


def _inner(spec: TensorSpec) -> str:
    """A name that no inner value can have: an output called "embedding" collided with one and gave an invalid model."""
    return f"transload.output.{spec.name}"


def finish(out: Path, path: Path, signature: Signature) -> Mapping[str, Any]:
    """Give inputs and outputs the signature's names and axes, check the model, and record it."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    empty = empty_axes(signature.inputs)
    filled: set[str] = set()
    for value, spec in zip(model.graph.input, signature.inputs, strict=True):
        _check_name(value.name, spec)
        sizes = value.type.tensor_type.shape.dim  # by the exporter's names of them
        filled |= {sizes[at].dim_param for at, axis in spec.dynamic_axes.items() if axis not in empty}
        declare(value, spec)
    for value, spec in zip(model.graph.output, signature.outputs, strict=True):
        if value.name == _inner(spec):
            _rename_output(model.graph, value.name, spec.name)
        declare(value, spec)
    mend_types(model)
    forget_sizes(model.graph)
    if empty:
        keep_zeros(model.graph, opset_of(model))
    count_from_the_front(model, filled - {""})
    onnx.save_model(model, path)  # weights that lie beside it stay there
    onnx.checker.check_model(path)
    made: Artifact = write_artifact(out, _TARGET, signature)
    return {"opset": opset_of(model), "operators": len(model.graph.node), "file": made.path.name}


def _check_name(got: str, spec: TensorSpec) -> None:
    if got != spec.name:
        raise Refused(f"the exporter called the input {spec.name} {got!r}", fix="rename that input of the model")


def _rename_output(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Rename an output; an inner value that has the name already steps aside."""
    taken = {name for node in graph.node for name in node.output} | {each.name for each in graph.initializer}
    if new in taken:
        rename_value(graph, new, f"{new}.inner")
    rename_value(graph, old, new)
    for value in graph.output:
        if value.name == old:
            value.name = new


def rename_value(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Everywhere in the graph and in the graphs inside its nodes."""
    for node in graph.node:
        for names in (node.input, node.output):
            for at, name in enumerate(names):
                if name == old:
                    names[at] = new
        for attribute in node.attribute:
            for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                rename_value(inner, old, new)
    for value in (*graph.value_info, *graph.initializer):
        if value.name == old:
            value.name = new


def declare(value: onnx.ValueInfoProto, spec: TensorSpec) -> None:
    """Write the spec's axes into a value's type: sizes, and the names of the dynamic ones."""
    del value.type.tensor_type.shape.dim[:]
    for axis in spec.shape:
        dim = value.type.tensor_type.shape.dim.add()
        if isinstance(axis, str):
            dim.dim_param = axis
        else:
            dim.dim_value = axis


def save(model: onnx.ModelProto, path: Path) -> None:
    """Write a model; above protobuf's 2 GB its weights go into one file beside it."""
    import onnx

    large = model.ByteSize() > PROTOBUF_LIMIT_BYTES
    onnx.save_model(model, path, save_as_external_data=large, location=f"{path.name}.data" if large else None)


PROTOBUF_LIMIT_BYTES = 1_900_000_000


def opset_of(model: onnx.ModelProto) -> int:
    """The version of the standard operators that the model uses."""
    return max((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), default=0)


__all__ = [
    "PROTOBUF_LIMIT_BYTES",
    "check_names_differ",
    "declare",
    "finish",
    "onnx_from_pt2",
    "onnx_from_source",
    "opset_of",
    "rename_value",
    "save",
]
