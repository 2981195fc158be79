"""Nodes in the order that ONNX asks for: each behind those that make its inputs.

ONNX Runtime runs a file in any order, and its converter to float16 writes the casts of the inputs last of all.
"""

from __future__ import annotations

from copy import deepcopy
from graphlib import CycleError, TopologicalSorter

from ...models.errors import BadRequest
from .graph import graphs_in, outer_names
from .lazy_onnx import onnx


def sort_nodes(graph: onnx.GraphProto) -> bool:
    """Put the nodes of a graph, and of those inside of it, in order, or raise BadRequest; return whether any moved."""
    inside = [body for node in graph.node for attribute in node.attribute for body in graphs_in(attribute)]
    moved = sum(map(sort_nodes, inside)) > 0  # each of them, where any() would end at the first
    needed = _needed(graph)
    if all(other < at for at, sources in needed.items() for other in sources):
        return moved
    try:
        order = list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        names = ", ".join(graph.node[at].name or graph.node[at].output[0] for at in error.args[1][1:])
        raise BadRequest(f"nodes of the graph wait for each other: {names}", fix="export the model again") from error
    nodes = [deepcopy(graph.node[at]) for at in order]
    del graph.node[:]
    graph.node.extend(nodes)
    return True


def _needed(graph: onnx.GraphProto) -> dict[int, list[int]]:
    """Return by each node's place those of the nodes whose outputs it reads, itself or in a graph of its own."""
    maker = {name: at for at, node in enumerate(graph.node) for name in node.output if name}
    reads = (
        [*node.input, *(name for attribute in node.attribute for name in outer_names(attribute))] for node in graph.node
    )
    return {at: [maker[name] for name in names if name in maker] for at, names in enumerate(reads)}
