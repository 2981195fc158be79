"""The walk through a graph that every back-end makes: node by node, function bodies in place of their calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Generic

from ...models.errors import Refused
from .batched_scan import as_nested_scans, is_batched_scan
from .function_bodies import LocalFunctions, body_of
from .graph import Graph, Node
from .lazy_onnx import onnx
from .node_reader import NodeReader, V


class GraphWalk(ABC, Generic[V]):
    """Converts the nodes of a graph in order; a scope holds the values by name."""

    outcome: ClassVar[str]  # what becomes of an operator, for the refusal of one that is unknown

    def __init__(self, functions: Sequence[onnx.FunctionProto] = ()) -> None:
        self.functions = LocalFunctions(functions)

    @abstractmethod
    def constants(self, graph: Graph) -> dict[str, V]:
        """Return the constants of a graph as values, by name."""

    @abstractmethod
    def convert(self, node: Node, inputs: Sequence[V | None], scope: dict[str, V]) -> Sequence[V | None] | None:
        """Return the outputs of a node by its operator function; None where the back-end has none."""

    def run_inside(self, graph: Graph, inputs: Sequence[V], scope: dict[str, V]) -> list[V]:
        """Return the outputs of a graph; names that it does not define come from `scope`."""
        inner = {**scope, **self.constants(graph)}
        inner.update(zip(graph.inputs, inputs, strict=True))
        self.run(graph.nodes, inner)
        return [inner[name] for name in graph.outputs]

    def run(self, nodes: Sequence[Node], scope: dict[str, V]) -> None:
        """Convert nodes in their order, and put their outputs into `scope`."""
        for node in nodes:
            outputs = self.convert_node(node, scope)
            scope.update(
                {name: value for name, value in zip(node.outputs, outputs, strict=False) if name and value is not None}
            )

    def convert_node(self, node: Node, scope: dict[str, V]) -> Sequence[V | None]:
        """Return the outputs of one node by the model's function, an operator function or the body, or refuse it."""
        inputs = [scope[name] if name else None for name in node.inputs]
        if self.functions.knows(node):
            with self.functions.called(node, inputs) as body:
                return self._run_body(node, body, inputs)
        outputs = self.convert(node, inputs, scope)
        if outputs is not None:
            return outputs
        if is_batched_scan(node):
            return self._run_body(node, as_nested_scans(node, inputs), inputs, scope)
        specified = body_of(node, inputs)
        if specified is None:
            raise Refused(
                f"{node}: the operator, as opset {node.opset} words it, is not among those that {self.outcome}",
                fix=NodeReader.other_route,
            )
        return self._run_body(node, specified, inputs)

    def _run_body(
        self, node: Node, body: Graph, inputs: Sequence[V | None], scope: Mapping[str, V] = MappingProxyType({})
    ) -> Sequence[V | None]:
        """Return the outputs of a body, which sees the node's inputs and the names in `scope`: a function sees none."""
        outputs = iter(self.run_inside(body, [value for value in inputs if value is not None], {**scope}))
        return [next(outputs) if name else None for name in node.outputs]
