"""Write `math.ceil`, `math.floor` and `round` of sizes in operators that a saved program can hold."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ledger import rewrites

if TYPE_CHECKING:
    import torch
    from torch.fx import Graph, Node


def write_out_rounding(program: torch.export.ExportedProgram) -> None:
    """Rewrite the graph in place. A node keeps what is known of its value, and so do the shapes computed from it."""
    graph = program.graph
    rounding = [node for node in graph.nodes if node.target in (math.ceil, math.floor) or _is_round(node)]
    for node in rounding:
        with graph.inserting_before(node):
            rounded = _rounded(_SizeWriter(graph), node)
        rounded.meta.update(node.meta)
        node.replace_all_uses_with(rounded)
        graph.erase_node(node)
    if rounding:
        graph.eliminate_dead_code()
        program.graph_module.recompile()


def _is_round(node: Node) -> bool:
    return node.target is round and node.args[1:] in ((), (None,)) and not node.kwargs


def _rounded(write: _SizeWriter, node: Node) -> Node:
    value: Any = node.args[0]  # a node: a capture computes the rounding of a number itself
    if node.target is not round:
        return _to_integer(write, value, node.target is math.ceil)
    half = write(operator.truediv, value, 2.0)  # a half goes to the even neighbour: both quarters round to it
    lower = _to_integer(write, write(operator.add, half, 0.25), up=False)
    return write(operator.add, lower, _to_integer(write, write(operator.sub, half, 0.25), up=True))


class _SizeWriter:
    """Writes calls into a graph, each with the value that it has for the sizes of the capture."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, function: Callable[..., object], *args: object) -> Node:
        node = self._graph.call_function(function, args)  # type: ignore[arg-type]  # nodes and numbers
        node.meta["val"] = function(*(_value_of(argument) for argument in args))
        return node


def _value_of(argument: object) -> object:
    """Return the value of a node's argument, which is a node or a number."""
    return argument.meta["val"] if hasattr(argument, "meta") else argument


def _to_integer(write: _SizeWriter, value: Node, up: bool) -> Node:
    """Round a size down, or up.

    A quotient of integers becomes a floor division, -(-n // 3) for ceil. Any other number r is truncated, which leaves
    d from -1 to 1: trunc(r) + trunc(d + 1) - 1 is floor(r), and trunc(r) - trunc(1 - d) + 1 is ceil(r); exact except
    for numbers less than 2^-53 from 0.
    """
    import torch

    is_quotient = value.target is operator.truediv
    if is_quotient and all(isinstance(_value_of(argument), int | torch.SymInt) for argument in value.args):
        above, below = value.args
        if up:
            return write(operator.neg, write(operator.floordiv, write(operator.neg, above), below))
        return write(operator.floordiv, above, below)
    truncated = write(math.trunc, value)
    rest = write(operator.sub, value, write(torch.sym_float, truncated))
    if up:
        step = write(math.trunc, write(operator.sub, 1.0, rest))
        return write(operator.add, write(operator.sub, truncated, step), 1)
    step = write(math.trunc, write(operator.add, rest, 1.0))
    return write(operator.sub, write(operator.add, truncated, step), 1)


PATCHES = rewrites(
    "torch.export.save",
    {"math.ceil, math.floor, round": write_out_rounding},
    why="It does not serialise these three functions of a size.",
    upstream="torch/_export/serde/serialize.py (_SYM_OPS)",
    until="torch.export.save takes them",
)
