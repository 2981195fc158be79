"""Finishing and writing an ONNX model: the record's names and axes, repairs, the 2 GB limit of protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...models.errors import Refused
from ...models.formats import Format, Target
from ...models.job import Job
from ...models.probes.sizes import empty_axes
from ...models.signature import Signature, TensorSpec
from ..lazy_import import onnx
from ..onnx_graph.graph import graphs_in
from ..write_converted import write_converted
from .empty_axes import count_from_the_front, keep_zeros
from .scripted_dtypes import insert_casts

PROTOBUF_LIMIT_BYTES = 1_900_000_000


def check_names_differ(signature: Signature) -> None:
    """Raise Refused if an input and an output share a name, which ONNX keeps for one value."""
    shared = {spec.name for spec in signature.inputs} & {spec.name for spec in signature.outputs}
    if shared:
        raise Refused(
            f"an input and an output are both called {min(shared)}, and ONNX has one value of a name",
            fix="rename that key of what forward returns, or that input",
        )


def output_alias(spec: TensorSpec) -> str:
    """Return a name that no inner value has: an output called "embedding" collided with one, an invalid model."""
    return f"transload.output.{spec.name}"


def finish(job: Job, signature: Signature) -> Mapping[str, Any]:
    """Give inputs and outputs the signature's names and axes, repair, check and record the model in job.out."""
    path = job.out / Format.ONNX.spec.payload
    model = onnx.load(path, load_external_data=False)
    empty = empty_axes(signature.inputs)
    never_empty: set[str] = set()
    for value, spec in zip(model.graph.input, signature.inputs, strict=True):
        if value.name != spec.name:
            raise Refused(
                f"the exporter called the input {spec.name} {value.name!r}", fix="rename that input of the model"
            )
        sizes = value.type.tensor_type.shape.dim  # with the exporter's names, which `declare` replaces
        never_empty |= {sizes[at].dim_param for at, axis in spec.dynamic_axes.items() if axis not in empty}
        declare(value, spec)
    for value, spec in zip(model.graph.output, signature.outputs, strict=True):
        if value.name == output_alias(spec):
            _rename_output(model.graph, value.name, spec.name)
        declare(value, spec)
    insert_casts(model)
    _forget_sizes(model.graph)
    if empty:
        keep_zeros(model.graph, opset_of(model))
    count_from_the_front(model, never_empty - {""})
    onnx.save_model(model, path)  # weights in a file beside it stay there
    onnx.checker.check_model(path)
    artifact = write_converted(job, Target(Format.ONNX), signature)
    return {"opset": opset_of(model), "operators": len(model.graph.node), "file": artifact.path.name}


def _rename_output(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Rename an output; rename an inner value that has the new name already."""
    used = {name for node in graph.node for name in node.output} | {tensor.name for tensor in graph.initializer}
    if new in used:
        rename_value(graph, new, f"{new}.inner")
    rename_value(graph, old, new)
    for value in graph.output:
        if value.name == old:
            value.name = new


def rename_value(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Rename a value everywhere in the graph and in the graphs inside its nodes."""
    for scope in (graph, *graphs_inside(graph.node)):
        for names in (names for node in scope.node for names in (node.input, node.output)):
            for at, name in enumerate(names):
                if name == old:
                    names[at] = new
        for value in (*scope.value_info, *scope.initializer):
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
    large = model.ByteSize() > PROTOBUF_LIMIT_BYTES
    onnx.save_model(model, path, save_as_external_data=large, location=f"{path.name}.data" if large else None)


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of the standard operators that the model uses."""
    return max((opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")), default=0)


def graphs_inside(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """Yield every graph inside these nodes, the bodies of loops and the branches of conditions, at any depth."""
    for graph in (graph for node in nodes for attribute in node.attribute for graph in graphs_in(attribute)):
        yield graph
        yield from graphs_inside(graph.node)


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph, each followed by the nodes of the graphs inside it."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in graphs_in(attribute):
                yield from nodes_of(inner)


def _forget_sizes(graph: onnx.GraphProto) -> None:
    """Remove the names of sizes from every graph inside another.

    Torch's older exporter gives one name to sizes that differ, as the widths of a loop's two states, and ONNX Runtime
    then lets their tensors share memory.
    """
    for body in graphs_inside(graph.node):
        for value in (*body.input, *body.output, *body.value_info):
            for size in value.type.tensor_type.shape.dim:
                if size.dim_param:
                    size.Clear()
