"""Bodies that are converted in the place of a call: of the model's own functions, and of operators by specification.

An operator with a function of its own in operators/ does not come here. One that the specification itself writes in
other operators is as right as those, and is refused by their names.

A model's functions are not inlined before by onnx: its inliner (1.23) drops an attribute that an outer function has by
default and hands on to an inner one, leaves functions of another opset alone, and forgets where a call comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from ...models.errors import Refused
from .graph import STANDARD, Graph, GraphValue, Node, graph_of, graphs_in, opsets_of, schema_of
from .lazy_onnx import onnx
from .patterns import fused

_CHECK = "check the model with onnx.checker"


def body_of(node: Node, inputs: Sequence[GraphValue | None]) -> Graph | None:
    """Return the body that the specification gives a node, for its present inputs and its outputs; None without one.

    Raises Refused where the node has attributes, inputs or outputs that the specification does not know.
    """
    schema = schema_of(node.op_type, node.opset, node.domain)
    function = schema and _function(schema, node, inputs)
    if function is None or any(it.op_type == node.op_type for it in function.node):
        return None
    check_call(node, inputs, function, schema.attributes, "operator")
    attributes = {name: it.default_value for name, it in schema.attributes.items() if it.default_value.name}
    return instance(function, node, inputs, {**attributes, **node.attributes})


def _function(schema: Any, node: Node, inputs: Sequence[GraphValue | None]) -> onnx.FunctionProto | None:
    """Return the body in the newest wording that the model's opset has; some depend on the inputs."""
    if schema.has_context_dependent_function:
        version = _newest(schema.context_dependent_function_opset_versions, node.opset)
        types = [_type(value) for value in inputs]
        written = version and schema.get_context_dependent_function_with_opset_version(version, _call(node), types)
    else:
        version = _newest(schema.function_opset_versions, node.opset) if schema.has_function else None
        written = version and schema.get_function_with_opset_version(version)
    return onnx.FunctionProto.FromString(written) if written else None


def check_call(
    node: Node, inputs: Sequence[GraphValue | None], function: onnx.FunctionProto, attributes: Iterable[str], kind: str
) -> None:
    """Refuse what a call has and its body does not: nothing that a node says may be overlooked."""
    unknown = set(node.attributes).difference(attributes)
    if unknown:
        raise Refused(f"{node}: the {kind} has no attribute {', '.join(sorted(unknown))}", fix=_CHECK)
    if len(inputs) > len(function.input) or len(node.outputs) > len(function.output):
        raise Refused(f"{node}: the call has more inputs or outputs than the {kind}", fix=_CHECK)


def _newest(versions: Iterable[int], opset: int) -> int | None:
    return max((version for version in versions if version <= opset), default=None)


def _call(node: Node) -> bytes:
    """Return the node as onnx's serialized message."""
    call = onnx.NodeProto(op_type=node.op_type, domain=node.domain, input=node.inputs, output=node.outputs)
    call.attribute.extend(node.attributes.values())
    return bytes(call.SerializeToString())


def _type(value: GraphValue | None) -> bytes:
    """Return a value's type as onnx's serialized message; empty for an input that is left out."""
    if value is None:
        return b""
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    return bytes(onnx.helper.make_tensor_type_proto(kind, value.shape).SerializeToString())


def instance(
    function: onnx.FunctionProto,
    node: Node,
    inputs: Sequence[GraphValue | None],
    attributes: Mapping[str, onnx.AttributeProto],
) -> Graph:
    """Return the body of one call: with its attributes, and without the inputs that it leaves out.

    Nodes without an origin of their own have that of the call.
    """
    present = [name for name, value in zip(function.input, inputs, strict=False) if value is not None]
    left_out = set(function.input).difference(present)
    wanted = [formal for formal, name in zip(function.output, node.outputs, strict=False) if name]
    inner_inputs, inner_outputs = ([onnx.ValueInfoProto(name=name) for name in names] for names in (present, wanted))
    graph = onnx.helper.make_graph(function.node, node.op_type, inner_inputs, inner_outputs)
    _bind(graph, attributes, left_out)
    body = graph_of(graph, {**node.opsets, **opsets_of(function.opset_import)}, node.origin)
    caller = node.name or node.outputs[0]
    return replace(
        body, nodes=tuple(replace(node, name=f"{caller}/{node.name or node.op_type}") for node in body.nodes)
    )


def _bind(graph: onnx.GraphProto, attributes: Mapping[str, onnx.AttributeProto], left_out: set[str]) -> None:
    """Write a call's attributes into every node of a body, also inside of its branches."""
    for node in graph.node:
        for at, name in enumerate(node.input):
            if name in left_out:
                node.input[at] = ""
        bound = [copy for attribute in node.attribute if (copy := _bound(attribute, attributes)) is not None]
        del node.attribute[:]
        node.attribute.extend(bound)
        for attribute in node.attribute:
            for inner in graphs_in(attribute):
                _bind(inner, attributes, left_out)


def _bound(attribute: onnx.AttributeProto, attributes: Mapping[str, onnx.AttributeProto]) -> onnx.AttributeProto | None:
    """Return an attribute of a body's node; one that refers to the call's has that one's value, or is None."""
    if not attribute.ref_attr_name:
        return attribute
    if attribute.ref_attr_name not in attributes:
        return None
    bound = deepcopy(attributes[attribute.ref_attr_name])
    bound.name = attribute.name
    return bound


class LocalFunctions:
    """A model's own functions by domain, name and overload. They go before operators of the same name."""

    def __init__(self, functions: Sequence[onnx.FunctionProto]) -> None:
        self._functions = {("" if it.domain in STANDARD else it.domain, it.name, it.overload): it for it in functions}
        self._called: list[tuple[str, str, str]] = []  # those whose bodies are being carried

    def knows(self, node: Node) -> bool:
        """Return whether the node calls one of them."""
        return (node.domain, node.op_type, node.overload) in self._functions

    @contextmanager
    def called(self, node: Node, inputs: Sequence[GraphValue | None]) -> Iterator[Graph]:
        """Enter one call: yields the function's graph, with the present inputs and the wanted outputs in its order.

        Raises Refused where the call does not fit the function, or calls itself.
        """
        name = (node.domain, node.op_type, node.overload)
        if name in self._called:
            raise Refused(f"{node}: the function calls itself", fix=_CHECK)
        self._called.append(name)
        try:
            yield self._body_of(node, inputs)
        finally:
            self._called.pop()

    def _body_of(self, node: Node, inputs: Sequence[GraphValue | None]) -> Graph:
        function = self._functions[node.domain, node.op_type, node.overload]
        defaults = {it.name: it for it in function.attribute_proto}
        check_call(node, inputs, function, {*defaults, *function.attribute}, "function")
        return fused(instance(function, node, inputs, {**defaults, **node.attributes}))
