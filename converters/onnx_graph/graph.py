"""An ONNX file as a small typed graph: what the back-ends read, and nothing of protobuf beyond it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...models.errors import BadRequest, Refused
from ...models.signature import Array, TensorSpec

if TYPE_CHECKING:
    import onnx

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
    """Nodes in an order in which the inputs of each are computed before it; inputs and outputs in the model's own
    order."""

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
        ...

    @property
    def shape(self) -> Sequence[int | None]:
        """The size of each axis, None where it is dynamic."""
        ...

    @property
    def rank(self) -> int:
        """The number of axes."""
        ...

    @property
    def array(self) -> Array | None:
        """The elements of a value that is known while converting."""
        ...


def read_model(path: Path) -> OnnxModel:
    """Read an ONNX file. Weights kept outside are read from the file's own folder only.

    Raises BadRequest where the file is no ONNX model, Refused where it uses something that no back-end knows.
    """
    import onnx
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
    return OnnxModel(graph, inputs, opsets.get("", 0), tuple(map(_own, model.functions)))


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
            wanted.update(node.inputs)
            wanted.update(name for attribute in node.attributes.values() for name in outer_names(attribute))
    return tuple(reversed(kept))


def reads(graph: Graph) -> set[str]:
    """Return every name that a graph reads, from around it or its own."""
    wanted = {*graph.outputs}
    for node in graph.nodes:
        wanted.update(node.inputs)
        wanted.update(name for attribute in node.attributes.values() for name in outer_names(attribute))
    return wanted


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
    return Node(
        op_type=node.op_type,
        domain=domain,
        version=_version(node.op_type, domain, opsets.get(domain, 1)),
        name=node.name,
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        attributes={attribute.name: _own(attribute) for attribute in node.attribute},
        origin=own if str(own := _origin(node)) else origin,
        opsets=opsets,
        overload=node.overload,
    )


def _own(message: Any) -> Any:
    """Return a copy of a part of a model: the part itself would keep the whole model and its weights in memory."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _version(op_type: str, domain: str, opset: int) -> int:
    import onnx.defs

    try:
        return onnx.defs.get_schema(op_type, opset, domain).since_version
    except onnx.defs.SchemaError:  # an operator that onnx itself does not define, as those of com.microsoft
        return opset


def _origin(node: onnx.NodeProto) -> NodeOrigin:
    """Return a node's origin.

    The dynamo exporter writes both parts into the metadata; the older one only makes the node's name of the path.
    """
    kept = {entry.key: entry.value for entry in node.metadata_props}
    frames = re.findall(r'File "([^"]+)", line (\d+)', kept.get("pkg.torch.onnx.stack_trace", ""))
    module = _last_scope(kept.get("pkg.torch.onnx.name_scopes", ""))
    if not kept and "/" in node.name:
        module = ".".join(node.name.strip("/").split("/")[:-1])
    return NodeOrigin(module, f"{Path(frames[-1][0]).name}:{frames[-1][1]}" if frames else "")


def _last_scope(text: str) -> str:
    """Return the innermost module of `['', 'layers.0', 'layers.0.norm', 'layer_norm']`; the last entry is the call
    itself."""
    try:
        scopes = ast.literal_eval(text) if text else []
    except (ValueError, SyntaxError):
        return ""
    return str(scopes[-2]) if isinstance(scopes, list) and len(scopes) > 1 else ""


def _spec(value: onnx.ValueInfoProto) -> TensorSpec:
    """Return an input's declaration. An axis without a size or a name is named after the input."""
    from onnx.helper import tensor_dtype_to_np_dtype

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
        return TensorSpec(value.name, tensor_dtype_to_np_dtype(kind.elem_type).name, tuple(axes))
    except (ValueError, KeyError) as error:
        raise Refused(f"the input {value.name}: {error}", fix="give the model inputs of a numeric dtype") from error


def tensor_array(tensor: onnx.TensorProto) -> Array:
    """Return a tensor that an attribute holds."""
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor)


def _array(tensor: onnx.TensorProto, folder: Path) -> Array:
    """Return an initializer, wherever it is kept."""
    from onnx import external_data_helper, numpy_helper

    read = _own(tensor) if external_data_helper.uses_external_data(tensor) else tensor
    _load(read, folder)
    array: Array = numpy_helper.to_array(read)
    return array


def _load(tensor: onnx.TensorProto, folder: Path) -> None:
    """Read what a tensor keeps outside, from `folder`, by onnx's own check of the location."""
    import onnx.checker
    from onnx import external_data_helper

    if not external_data_helper.uses_external_data(tensor):
        return
    try:
        external_data_helper.load_external_data_for_tensor(tensor, str(folder))
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
    from onnx.helper import get_attribute_value

    value = get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    return [part.decode() if isinstance(part, bytes) else part for part in value] if _listed(value) else value


def _listed(value: object) -> bool:
    return not hasattr(value, "SerializeToString") and not isinstance(value, str) and hasattr(value, "__len__")


def type_variable(node: Node, at: int, *, of_output: bool = False) -> str:
    """Return the name of the type variable of an input or of an output, as "T"; a fixed type's own text where it has
    none."""
    import onnx.defs

    if not onnx.defs.has(node.op_type, node.opset, node.domain):
        return "T"
    schema = onnx.defs.get_schema(node.op_type, node.opset, node.domain)
    formal = schema.outputs if of_output else schema.inputs
    return str(formal[min(at, len(formal) - 1)].type_str)
