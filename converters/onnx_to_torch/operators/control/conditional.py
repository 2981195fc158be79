"""If, Loop, Scan and SequenceMap: a known condition writes one branch; else torch.cond keeps both. Loops: loops.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ....onnx_graph.semantics.loops_and_sequences import check_mapped
from ...inner_graphs import GraphRunner, InnerGraphWriter, Scope, assign_outputs, known_truth, same_size
from ...lazy_torch import torch
from ...values import Expression, ExpressionSequence
from ...writers import CodegenContext
from .loops import loop, scan
from .sequences import sequence_of


def control(op: CodegenContext, run: GraphRunner, scope: Scope) -> Sequence[Expression | None]:
    """Write a node with graphs inside. `run` writes a graph; `scope`: the names around the node."""
    return _WRITTEN[op.node.op_type](op, InnerGraphWriter(op, run, scope))


def _if(op: CodegenContext, inside: InnerGraphWriter) -> Sequence[Expression]:
    """Write If: one of two graphs, by torch.cond where the condition is not known."""
    condition = op.value(0)
    then, otherwise = op.graph("then_branch"), op.graph("else_branch")
    chosen = known_truth(condition)
    if chosen is not None:
        return inside.here(then if chosen else otherwise, [])
    scalar = f"{condition}" if not condition.rank else f"{condition}.reshape(())"
    functions = [
        inside.function(name, [], partial(InnerGraphWriter.here, graph=graph, inputs=[]), "plain_copy({})")
        for name, graph in (("then", then), ("otherwise", otherwise))
    ]
    trials = [
        _common_trial(op, at, *pair)
        for at, pair in enumerate(zip(*(function.trials for function in functions), strict=True))
    ]
    op.writer.lines += [function.block for function in functions]
    op.writer.helpers.add("plain_copy")
    return assign_outputs(op, f"torch.cond({scalar}, {functions[0].block.name}, {functions[1].block.name})", trials)


def _common_trial(op: CodegenContext, at: int, then: torch.Tensor, otherwise: torch.Tensor) -> torch.Tensor:
    """Return what is known of a tensor that comes from one of two branches."""
    if (then.dtype, then.dim()) != (otherwise.dtype, otherwise.dim()):
        op.refuse(
            f"its output {at} is {then.dtype} of {then.dim()} axes in one branch and {otherwise.dtype} of "
            f"{otherwise.dim()} axes in the other",
            fix="give both branches the same rank and dtype",
        )
    return op.writer.unsure(then, list(map(same_size, then.shape, otherwise.shape)))


def _sequence_map(op: CodegenContext, inside: InnerGraphWriter) -> Sequence[Expression]:
    """Write SequenceMap: its body for each place of the sequences; tensors among the inputs are whole every time."""
    body, inputs, count = op.graph("body"), op.everything(), len(op.sequence(0).tensors)
    check_mapped(op, [count, *(len(value.tensors) for value in inputs if isinstance(value, ExpressionSequence))])
    rows = [
        inside.here(body, [value.tensors[at] if isinstance(value, ExpressionSequence) else value for value in inputs])
        for at in range(count)
    ]
    return [sequence_of(op, parts) for parts in zip(*rows, strict=True)]


_WRITTEN: Mapping[str, Callable[[CodegenContext, InnerGraphWriter], Sequence[Expression]]] = {
    "If": _if, "Loop": loop, "Scan": scan, "SequenceMap": _sequence_map
}  # fmt: skip
CONTROL = frozenset(_WRITTEN)
