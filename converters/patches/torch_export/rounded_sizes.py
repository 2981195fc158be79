"""`math.ceil`, `math.floor` and `round` of sizes in operators that a file of torch.export holds: not these three."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def write_out_rounding(program: torch.export.ExportedProgram) -> None:
    """In its graph, in place. A node keeps what is known of its value, and so do the shapes made of it."""
    graph = program.graph
    found = [node for node in graph.nodes if node.target in (math.ceil, math.floor) or _is_round(node)]
    for node in found:
        with graph.inserting_before(node):
            made = _written(_Sizes(graph), node)
        made.meta.update(node.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)
    if found:
        graph.eliminate_dead_code()
        program.graph_module.recompile()


def _is_round(node: Any) -> bool:
    return node.target is round and node.args[1:] in ((), (None,)) and not node.kwargs


def _written(sizes: _Sizes, node: Any) -> Any:
    value = node.args[0]
    if node.target is not round:
        return _whole(sizes, value, node.target is math.ceil)
    half = sizes(
        operator.truediv, value, 2.0
    )  # of a half the even neighbour: both quarters beside it fall on one number
    lower = _whole(sizes, sizes(operator.add, half, 0.25), up=False)
    return sizes(operator.add, lower, _whole(sizes, sizes(operator.sub, half, 0.25), up=True))


class _Sizes:
    """Writes calls into a graph, each with the value that it has for the sizes of the capture."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def __call__(self, function: Any, *args: Any) -> Any:
        node = self._graph.call_function(function, args)
        node.meta["val"] = function(*(_value_of(each) for each in args))
        return node


def _value_of(argument: Any) -> Any:
    """Of an argument of a node, which is a node or a number."""
    return argument.meta["val"] if hasattr(argument, "meta") else argument


def _whole(sizes: _Sizes, value: Any, up: bool) -> Any:
    """Of a quotient of whole numbers the whole quotient, -(-n // 3) for ceil. Of any other number r what is cut off it,
    and what is left, d from -1 to 1: cut(r) + cut(d + 1) - 1 is floor, and cut(r) - cut(1 - d) + 1 is ceil; exact but
    for numbers less than 2^-53 from 0."""
    import torch

    if value.target is operator.truediv and all(isinstance(_value_of(each), int | torch.SymInt) for each in value.args):
        above, below = value.args
        if up:
            return sizes(operator.neg, sizes(operator.floordiv, sizes(operator.neg, above), below))
        return sizes(operator.floordiv, above, below)
    cut = sizes(math.trunc, value)
    left = sizes(operator.sub, value, sizes(torch.sym_float, cut))
    if up:
        more = sizes(math.trunc, sizes(operator.sub, 1.0, left))
        return sizes(operator.add, sizes(operator.sub, cut, more), 1)
    more = sizes(math.trunc, sizes(operator.add, left, 1.0))
    return sizes(operator.sub, sizes(operator.add, cut, more), 1)
