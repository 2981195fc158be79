"""Rewriting of a SavedModel with operators that every converter supports.

Cases become Ifs, and look-ups in a variable become look-ups in its value: tf.gather of a variable is one operator
(ResourceGather), which TensorFlow leaves unchanged in a loop or a branch when it turns variables into constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .case_branches import INT32, int32_constant, rewrite_cases

if TYPE_CHECKING:
    from tensorflow.core.framework.function_pb2 import FunctionDef
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    from .case_branches import Nodes

_LOOKUPS = {"ResourceGather": "GatherV2", "ResourceGatherNd": "GatherNd"}


def simplify_operators(model: SavedModel) -> bool:
    """Rewrite a SavedModel in place; return whether anything was changed."""
    graphs = [meta_graph.graph_def for meta_graph in model.meta_graphs]
    changed = [rewrite(graph) for rewrite in (rewrite_cases, _rewrite_lookups) for graph in graphs]
    return any(changed)


def _rewrite_lookups(graph: GraphDef) -> bool:
    """Rewrite the look-ups in a graph's functions in place; return whether there were any."""
    names = [_to_gather(node, function.node_def) for function in graph.library.function for node in _lookups(function)]
    return bool(names)


def _lookups(function: FunctionDef) -> list[NodeDef]:
    return [node for node in function.node_def if node.op in _LOOKUPS]


def _to_gather(node: NodeDef, nodes: Nodes) -> str:
    """Turn a look-up in a variable into one in its value, which a new node reads; return the look-up's name."""
    variable, indices, *control = node.input
    read = nodes.add(name=f"{node.name}/read", op="ReadVariableOp", input=[variable])
    read.attr["dtype"].CopyFrom(node.attr["dtype"])
    node.op = _LOOKUPS[node.op]
    axes = []
    if node.op == "GatherV2":
        axis = node.attr["batch_dims"].i if "batch_dims" in node.attr else 0
        axes = [f"{int32_constant(nodes, f'{node.name}/axis', axis)}:output:0"]
        node.attr["Taxis"].type = INT32
    node.input[:] = [f"{read.name}:value:0", indices, *axes, *control]
    node.attr["Tparams"].CopyFrom(node.attr["dtype"])
    for attribute in ("dtype", "validate_indices"):
        if attribute in node.attr:
            del node.attr[attribute]
    return str(node.name)
