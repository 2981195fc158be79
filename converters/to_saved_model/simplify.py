"""A SavedModel in operators that every converter has: choices of one of two, and look-ups in what is read before.

tf.gather of a variable is one operator (ResourceGather), which TensorFlow leaves as it is in a loop or a branch when
variables become constants.
"""

from __future__ import annotations

from typing import Any

from .case_branches import INT32, int32_constant, without_cases

_LOOKUPS = {"ResourceGather": "GatherV2", "ResourceGatherNd": "GatherNd"}


def write_plainly(model: Any) -> bool:
    """Change a SavedModel in place; whether there was anything else in it."""
    graphs = [each.graph_def for each in model.meta_graphs]
    changed = [write(graph) for write in (without_cases, _without_lookups) for graph in graphs]
    return any(changed)


def _without_lookups(graph: Any) -> bool:
    """Write the look-ups of a GraphDef's functions in place; whether there were any."""
    found = [_write(node, function.node_def) for function in graph.library.function for node in _lookups(function)]
    return bool(found)


def _lookups(function: Any) -> list[Any]:
    return [node for node in function.node_def if node.op in _LOOKUPS]


def _write(node: Any, nodes: Any) -> str:
    """Make a look-up among `nodes` one in what a node more reads; its name."""
    variable, places, *others = node.input
    read = nodes.add(name=f"{node.name}/read", op="ReadVariableOp", input=[variable])
    read.attr["dtype"].CopyFrom(node.attr["dtype"])
    node.op = _LOOKUPS[node.op]
    axes = []
    if node.op == "GatherV2":
        axis = node.attr["batch_dims"].i if "batch_dims" in node.attr else 0
        axes = [f"{int32_constant(nodes, f'{node.name}/axis', axis)}:output:0"]
        node.attr["Taxis"].type = INT32
    node.input[:] = [f"{read.name}:value:0", places, *axes, *others]
    node.attr["Tparams"].CopyFrom(node.attr["dtype"])
    for each in ("dtype", "validate_indices"):
        if each in node.attr:
            del node.attr[each]
    return str(node.name)
