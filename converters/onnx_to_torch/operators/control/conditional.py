"""If, Loop, Scan and SequenceMap: what is known while writing needs no function. A condition that is known is one
branch; else torch.cond keeps both. Loops: see loops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ....onnx_graph.semantics.sequence_operators import check_mapped
from ...common.tensor_sequence import TensorSequence, listed
from ...inner_graphs import Inside, Run, Scope, placed, same_size, truth
from ...operator_context import Op
from ...values import Value
from .loops import loop, scan

if TYPE_CHECKING:
    import torch


def control(op: Op, run: Run, scope: Scope) -> Sequence[Value | None]:
    """The answers of a node with graphs inside. `run` writes a graph; `scope`: the names around the node."""
    return _WRITTEN[op.node.op_type](op, Inside(op, run, scope))


def _if(op: Op, inside: Inside) -> Sequence[Value]:
    """One of two graphs: torch.cond, where the condition is not known."""
    condition = op.value(0)
    then, otherwise = op.graph("then_branch"), op.graph("else_branch")
    chosen = truth(condition)
    if chosen is not None:
        return inside.here(then if chosen else otherwise, [])
    asked = f"{condition}" if not condition.rank else f"{condition}.reshape(())"
    made = [
        inside.function(name, [], partial(Inside.here, graph=graph, inputs=[]), "plain_copy({})")
        for name, graph in (("then", then), ("otherwise", otherwise))
    ]
    trials = [_either(op, at, *pair) for at, pair in enumerate(zip(*(each.trials for each in made), strict=True))]
    op.page.lines += [each.block for each in made]
    op.page.helpers.add("plain_copy")
    return placed(op, f"torch.cond({asked}, {made[0].block.name}, {made[1].block.name})", trials)


def _either(op: Op, at: int, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """What is known of a tensor that is one of two."""
    if (one.dtype, one.dim()) != (other.dtype, other.dim()):
        op.refuse(
            f"its output {at} is {one.dtype} of {one.dim()} axes in one branch and {other.dtype} of {other.dim()} axes "
            "in the other",
            fix="give both branches the same rank and dtype",
        )
    return op.page.unsure(one, list(map(same_size, one.shape, other.shape)))


def _sequence_map(op: Op, inside: Inside) -> Sequence[Value]:
    """Its body for each place of the first sequence; tensors among the inputs are given whole every time."""
    body, given, count = op.graph("body"), op.everything(), len(op.sequence(0).tensors)
    check_mapped(op, [count, *(len(each.tensors) for each in given if isinstance(each, TensorSequence))])
    made = [
        inside.here(body, [each.tensors[at] if isinstance(each, TensorSequence) else each for each in given])
        for at in range(count)
    ]
    return [listed(op, parts) for parts in zip(*made, strict=True)]


_WRITTEN: Mapping[str, Callable[[Op, Inside], Sequence[Value]]] = {
    "If": _if, "Loop": loop, "Scan": scan, "SequenceMap": _sequence_map
}  # fmt: skip
CONTROL = frozenset(_WRITTEN)
