"""Operators that the specification itself writes in other operators: their bodies are lowered in their place.

An operator with a function of its own in operators/ does not come here. One that has none is as right as the
operators of its body, and is refused by their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ...models.errors import Refused
from .graph import Graph, Node, graph_of, graphs_in, opsets_of

if TYPE_CHECKING:
    import onnx

_CHECK = "check the model with onnx.checker"


class Typed(Protocol):
    """What is asked of a value of a converter here."""

    @property
    def dtype(self) -> str:
        """By numpy's name."""
        ...

    @property
    def shape(self) -> Sequence[int | None]:
        """None where an axis is dynamic."""
        ...


def body_of(node: Node, inputs: Sequence[Typed | None]) -> Graph | None:
    """What the specification makes of a node: a graph that takes the inputs that are there, in their order, and makes
    as many outputs as the node has; None where the specification has no body for this node.

    Raises Refused where the node gives or wants what the specification does not know.
    """
    import onnx.defs

    if not onnx.defs.has(node.op_type, node.opset, node.domain):
        return None
    schema: Any = onnx.defs.get_schema(node.op_type, node.opset, node.domain)
    function = _function(schema, node, inputs)
    if function is None or any(each.op_type == node.op_type for each in function.node):
        return None
    check_call(node, inputs, function, schema.attributes, "operator")
    attributes = {name: each.default_value for name, each in schema.attributes.items() if each.default_value.name}
    return instance(function, node, inputs, {**attributes, **node.attributes})


def _function(schema: Any, node: Node, inputs: Sequence[Typed | None]) -> onnx.FunctionProto | None:
    """The body, in the newest wording that the model's opset has; some depend on what the node is given."""
    import onnx

    if schema.has_context_dependent_function:
        version = _newest(schema.context_dependent_function_opset_versions, node.opset)
        types = [_type(value) for value in inputs]
        written = version and schema.get_context_dependent_function_with_opset_version(version, _call(node), types)
    else:
        version = _newest(schema.function_opset_versions, node.opset) if schema.has_function else None
        written = version and schema.get_function_with_opset_version(version)
    return onnx.FunctionProto.FromString(written) if written else None


def check_call(
    node: Node, inputs: Sequence[Typed | None], function: onnx.FunctionProto, attributes: Iterable[str], kind: str
) -> None:
    """Refuse what a call gives or wants and its body does not have: nothing that a node says may be overlooked."""
    unknown = set(node.attributes).difference(attributes)
    if unknown:
        raise Refused(f"{node}: the {kind} has no attribute {', '.join(sorted(unknown))}", fix=_CHECK)
    if len(inputs) > len(function.input) or len(node.outputs) > len(function.output):
        raise Refused(f"{node}: the call has more inputs or outputs than the {kind}", fix=_CHECK)


def _newest(versions: Iterable[int], opset: int) -> int | None:
    return max((version for version in versions if version <= opset), default=None)


def _call(node: Node) -> bytes:
    """The node as onnx knows it."""
    import onnx

    call = onnx.NodeProto(op_type=node.op_type, domain=node.domain, input=node.inputs, output=node.outputs)
    call.attribute.extend(node.attributes.values())
    return bytes(call.SerializeToString())


def _type(value: Typed | None) -> bytes:
    """A value's type; an empty one for an input that is left out."""
    import numpy as np
    from onnx import helper

    if value is None:
        return b""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return bytes(helper.make_tensor_type_proto(kind, value.shape).SerializeToString())


def instance(
    function: onnx.FunctionProto,
    node: Node,
    inputs: Sequence[Typed | None],
    attributes: Mapping[str, onnx.AttributeProto],
) -> Graph:
    """The body of one call: with its attributes, and without the inputs that it leaves out. Its nodes come from where
    they say, or else from where the call does."""
    from onnx import GraphProto, ValueInfoProto

    given = [name for name, value in zip(function.input, inputs, strict=False) if value is not None]
    left_out = set(function.input).difference(given)
    graph = GraphProto(name=node.op_type)
    graph.node.extend(function.node)
    graph.input.extend(ValueInfoProto(name=name) for name in given)
    wanted = [formal for formal, name in zip(function.output, node.outputs, strict=False) if name]
    graph.output.extend(ValueInfoProto(name=name) for name in wanted)
    _bind(graph, attributes, left_out)
    body = graph_of(graph, {**node.opsets, **opsets_of(function.opset_import)}, node.origin)
    caller = node.name or node.outputs[0]
    return replace(
        body, nodes=tuple(replace(each, name=f"{caller}/{each.name or each.op_type}") for each in body.nodes)
    )


def _bind(graph: onnx.GraphProto, attributes: Mapping[str, onnx.AttributeProto], left_out: set[str]) -> None:
    """Write into every node of a body, also inside of its branches, what the call says."""
    for node in graph.node:
        for at, name in enumerate(node.input):
            if name in left_out:
                node.input[at] = ""
        bound = [made for each in node.attribute if (made := _bound(each, attributes)) is not None]
        del node.attribute[:]
        node.attribute.extend(bound)
        for attribute in node.attribute:
            for inner in graphs_in(attribute):
                _bind(inner, attributes, left_out)


def _bound(attribute: onnx.AttributeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.AttributeProto | None:
    """An attribute of a body's node; one that stands for an attribute of the call has that one's value, or none."""
    from onnx import AttributeProto

    if not attribute.ref_attr_name:
        return attribute
    if attribute.ref_attr_name not in attributes:
        return None
    bound = AttributeProto()
    bound.CopyFrom(attributes[attribute.ref_attr_name])
    bound.name = attribute.name
    return bound
