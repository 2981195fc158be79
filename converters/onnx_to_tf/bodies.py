"""Operators that the specification itself writes in other operators: their bodies are lowered in their place.

An operator with a function of its own in operators/ does not come here. One that has none is as right as the
operators of its body, and is refused by their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .graph import Graph, Node, graph_of
from .values import Value

if TYPE_CHECKING:
    import onnx


def body_of(node: Node, inputs: Sequence[Value | None]) -> Graph | None:
    """What the specification makes of a node, as a graph that takes the inputs that are there, in their order, and
    makes the outputs that are wanted; None where the specification has no body for it."""
    import onnx.defs

    if not onnx.defs.has(node.op_type, node.opset, node.domain):
        return None
    schema: Any = onnx.defs.get_schema(node.op_type, node.opset, node.domain)
    if not (schema.has_function or schema.has_context_dependent_function):
        return None
    graph = graph_of(_inlined(node, inputs), node.opsets)
    return None if any(each.op_type == node.op_type for each in graph.nodes) else graph


def _inlined(node: Node, inputs: Sequence[Value | None]) -> onnx.GraphProto:
    """A model of this one node, with its body in its place."""
    import onnx
    import onnx.inliner
    from onnx import helper

    call = onnx.NodeProto(op_type=node.op_type, domain=node.domain, input=node.inputs, output=node.outputs)
    call.attribute.extend(node.attributes.values())
    given = dict.fromkeys(name for name in node.inputs if name)
    types = {name: _type(name, value) for name, value in zip(node.inputs, inputs, strict=True) if value is not None}
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs if name]
    graph = helper.make_graph([call], "body", [types[name] for name in given], outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in node.opsets.items()]
    model = helper.make_model(graph, opset_imports=imports)
    called = [(node.domain, node.op_type)]
    return onnx.inliner.inline_selected_functions(model, called, inline_schema_functions=True).graph


def _type(name: str, value: Value) -> onnx.ValueInfoProto:
    import numpy as np
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return helper.make_tensor_value_info(name, kind, value.shape)
