"""Graphs inside the nodes of an ONNX graph: the bodies of loops and the branches of conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


def graphs_inside(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """Yield every graph inside these nodes, at any depth."""
    for graph in (graph for node in nodes for graph in _graphs_of(node)):
        yield graph
        yield from graphs_inside(graph.node)


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph, each followed by the nodes of the graphs inside it."""
    for node in graph.node:
        yield node
        for inner in _graphs_of(node):
            yield from nodes_of(inner)


def _graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        yield from [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def forget_sizes(graph: onnx.GraphProto) -> None:
    """Remove the names of sizes from every graph inside another.

    Torch's older exporter gives one name to sizes that differ, as the widths of a loop's two states, and ONNX Runtime
    then lets their tensors share memory.
    """
    for body in graphs_inside(graph.node):
        for value in (*body.input, *body.output, *body.value_info):
            for size in value.type.tensor_type.shape.dim:
                if size.dim_param:
                    size.Clear()
