"""An ONNX file as a small typed graph: what the back-ends read, and nothing of protobuf beyond it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...models.errors import BadRequest, Refused
from ...models.signature import Array, TensorSpec
from .lazy_onnx import onnx

STANDARD = ("", "ai.onnx")


@dataclass(frozen=True, slots=True)
class NodeOrigin:
    """Where a node comes from, as the exporter wrote it: the path in the module tree, and file and line."""

    module: str = ""
    source: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.module and f"module {self.module}", self.source) if part)


_NOWHERE = NodeOrigin()


@dataclass(frozen=True, eq=False)
class Node:
    """One operator call. An empty name in `inputs` or `outputs` is an optional one that is not there."""

    op_type: str
    domain: str  # "" is ai.onnx
    version: int  # the opset version in which this wording of the operator appeared
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, onnx.AttributeProto]
    origin: NodeOrigin
    opsets: Mapping[str, int]  # the versions that the model imports, by domain
    overload: str = ""  # which of the model's own functions of one name

    @property
    def opset(self) -> int:
        """The version of the node's own domain."""
        return self.opsets.get(self.domain, 1)

    def __str__(self) -> str:
        where = f" ({self.origin})" if str(self.origin) else ""
        kind = f"{self.domain}.{self.op_type}" if self.domain else self.op_type
        return f"{kind} node {self.name or self.outputs[0]!r}{where}"


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes, each behind those that compute its inputs; inputs and outputs in the model's own order."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """The contents of an ONNX file."""

    graph: Graph
    inputs: tuple[TensorSpec, ...]
    opset: int  # the version of the standard operators
    functions: tuple[onnx.FunctionProto, ...] = ()  # that the model itself defines


class GraphValue(Protocol):
    """The parts of a back-end's value that reading a node needs."""

    @property
    def dtype(self) -> str:
        """The numpy name of the dtype."""

    @property
    def shape(self) -> Sequence[int | None]:
        """The size of each axis, None where it is dynamic."""

    @property
    def rank(self) -> int:
        """The number of axes."""

    @property
    def array(self) -> Array | None:
        """The elements of a value that is known while converting."""


def read_model(path: Path) -> OnnxModel:
    """Read an ONNX file. Weights kept outside are read from the file's own folder only.

    Raises BadRequest where the file is no ONNX model, Refused where it uses something that no back-end knows.
    """
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(path, load_external_data=False)
    except (OSError, DecodeError) as error:
        raise BadRequest(f"{path} is not an ONNX model: {error}", fix="export it anew; it may be cut short") from error
    if not model.graph.output:
        raise BadRequest(f"{path} is not an ONNX model: it has no outputs", fix="export it anew; it may be cut short")
    constants = {tensor.name: _array(tensor, path.parent) for tensor in model.graph.initializer}
    for node in (*model.graph.node, *(node for function in model.functions for node in function.node)):
        _load_inside(node, path.parent)
    opsets = opsets_of(model.opset_import)
    graph = _graph(model.graph, opsets, constants)
    declared = {value.name: value for value in model.graph.input}
    inputs = tuple(_spec(declared[name]) for name in graph.inputs)
    return OnnxModel(graph, inputs, opsets.get("", 0), tuple(map(deepcopy, model.functions)))


def opsets_of(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Return the versions that a model or a function imports, by domain."""
    return {"" if opset.domain in STANDARD else opset.domain: opset.version for opset in imports}


def graph_of(graph: onnx.GraphProto, opsets: Mapping[str, int], origin: NodeOrigin = _NOWHERE) -> Graph:
    """Read a graph that lies inside a node or stands for one; nodes without an origin of their own have `origin`."""
    constants = {tensor.name: tensor_array(tensor) for tensor in graph.initializer}
    return _graph(graph, opsets, constants, origin)


def _graph(
    graph: onnx.GraphProto, opsets: Mapping[str, int], constants: Mapping[str, Array], origin: NodeOrigin = _NOWHERE
) -> Graph:
    if graph.sparse_initializer:
        name = graph.sparse_initializer[0].values.name
        raise Refused(f"the constant {name} is a sparse_initializer", fix="store it as a plain initializer")
    outputs = tuple(value.name for value in graph.output)
    nodes = needed([_node(value, opsets, origin) for value in graph.node], outputs)
    arguments = tuple(value.name for value in graph.input if value.name not in constants)
    return Graph(nodes, constants, arguments, outputs)


def needed(nodes: Sequence[Node], outputs: tuple[str, ...]) -> tuple[Node, ...]:
    """Return the nodes that an output depends on: what nobody reads need not be convertible."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(_names_read(node))
    return tuple(reversed(kept))


def reads(graph: Graph) -> set[str]:
    """Return every name that a graph reads, from around it or its own."""
    return {*graph.outputs, *(name for node in graph.nodes for name in _names_read(node))}


def _names_read(node: Node) -> Iterator[str]:
    yield from node.inputs
    for attribute in node.attributes.values():
        yield from outer_names(attribute)


def outer_names(attribute: onnx.AttributeProto) -> Iterator[str]:
    """Return every name that the graphs in an attribute read, their own ones included."""
    for graph in graphs_in(attribute):
        yield from (value.name for value in graph.output)
        for node in graph.node:
            yield from node.input
            for inner in node.attribute:
                yield from outer_names(inner)


def graphs_in(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    """Return the graphs that an attribute holds."""
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _node(node: onnx.NodeProto, opsets: Mapping[str, int], origin: NodeOrigin) -> Node:
    domain = "" if node.domain in STANDARD else node.domain
    opset = opsets.get(domain, 1)
    return Node(
        op_type=node.op_type,
        domain=domain,
        version=schema.since_version if (schema := schema_of(node.op_type, opset, domain)) else opset,
        name=node.name,
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        # Copies: a part of the model itself would keep the whole model and its weights in memory.
        attributes={attribute.name: deepcopy(attribute) for attribute in node.attribute},
        origin=own if str(own := _origin(node)) else origin,
        opsets=opsets,
        overload=node.overload,
    )


def schema_of(op_type: str, opset: int, domain: str) -> Any:
    """Return the wording of an operator in an opset; None where onnx does not define it, as those of com.microsoft."""
    return onnx.defs.get_schema(op_type, opset, domain) if onnx.defs.has(op_type, opset, domain) else None


def _origin(node: onnx.NodeProto) -> NodeOrigin:
    """Read the metadata, where the dynamo exporter writes both parts; the older one only names the node by the path."""
    kept = {entry.key: entry.value for entry in node.metadata_props}
    frames = re.findall(r'File "([^"]+)", line (\d+)', kept.get("pkg.torch.onnx.stack_trace", ""))
    module = _last_scope(kept.get("pkg.torch.onnx.name_scopes", ""))
    if not kept and "/" in node.name:
        module = ".".join(node.name.strip("/").split("/")[:-1])
    return NodeOrigin(module, f"{Path(frames[-1][0]).name}:{frames[-1][1]}" if frames else "")


def _last_scope(text: str) -> str:
    """Return the innermost module of `['', 'layers.0', 'layers.0.norm', 'layer_norm']`: the last is the call itself."""
    try:
        scopes = ast.literal_eval(text) if text else []
    except (ValueError, SyntaxError):
        return ""
    return str(scopes[-2]) if isinstance(scopes, list) and len(scopes) > 1 else ""


def _spec(value: onnx.ValueInfoProto) -> TensorSpec:
    """Return an input's declaration. An axis without a size or a name is named after the input."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise Refused(
            f"the input {value.name} is no tensor of a known rank", fix="declare its type and its axes when exporting"
        )
    axes = [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"{value.name}.{at}"
        for at, dim in enumerate(kind.shape.dim)
    ]
    try:
        return TensorSpec(value.name, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name, tuple(axes))
    except (ValueError, KeyError) as error:
        raise Refused(f"the input {value.name}: {error}", fix="give the model inputs of a numeric dtype") from error


def tensor_array(tensor: onnx.TensorProto) -> Array:
    """Return a tensor that an attribute holds."""
    return onnx.numpy_helper.to_array(tensor)


def _array(tensor: onnx.TensorProto, folder: Path) -> Array:
    """Return an initializer, wherever it is kept."""
    if tensor.data_location == tensor.EXTERNAL:
        tensor = deepcopy(tensor)  # so that only one such tensor is in memory twice
        _load(tensor, folder)
    return tensor_array(tensor)


def _load(tensor: onnx.TensorProto, folder: Path) -> None:
    """Read what a tensor keeps outside, from `folder`, by onnx's own check of the location."""
    from onnx.external_data_helper import load_external_data_for_tensor

    if tensor.data_location != tensor.EXTERNAL:
        return
    try:
        load_external_data_for_tensor(tensor, str(folder))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise BadRequest(
            f"the weights of {tensor.name} cannot be read: {error}", fix="keep the weights file beside the model"
        ) from error
    tensor.data_location = tensor.DEFAULT
    del tensor.external_data[:]


def _load_inside(node: onnx.NodeProto, folder: Path) -> None:
    """Read what the attributes of a node, and those of the graphs inside of it, keep outside."""
    for attribute in node.attribute:
        for tensor in [*([attribute.t] if attribute.HasField("t") else []), *attribute.tensors]:
            _load(tensor, folder)
        for graph in graphs_in(attribute):
            for tensor in graph.initializer:
                _load(tensor, folder)
            for inner in graph.node:
                _load_inside(inner, folder)


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Return a number, a str, a list of either, a TensorProto or a GraphProto."""
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.type == attribute.STRING:
        return value.decode()
    return [text.decode() for text in value] if attribute.type == attribute.STRINGS else value


def type_variable(node: Node, at: int, *, of_output: bool = False) -> str:
    """Return the type variable of an input or output, as "T", or a fixed type's own text; T of an unknown operator."""
    schema = schema_of(node.op_type, node.opset, node.domain)
    if schema is None:
        return "T"
    formal = schema.outputs if of_output else schema.inputs
    return str(formal[min(at, len(formal) - 1)].type_str)
