"""Control flow. Graphs inside a node see the names around it."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Graph
from ..lazy import tf
from ..reader import Op
from ..registry import ANY, BOOL, lowers
from ..values import TfTensor, Value, computed


@lowers("If", since=1, B=BOOL, V=ANY)
def if_else(op: Op) -> list[Value]:
    """One of two graphs; only that one where the condition is known."""
    condition, branches = op.value(0), (op.graph("then_branch"), op.graph("else_branch"))
    if condition.array is not None:
        return op.branch(branches[0] if condition.array.reshape(()) else branches[1], [])

    def call(graph: Graph) -> Callable[[], list[TfTensor]]:
        return lambda: [value.tensor() for value in op.branch(graph, [])]

    answers = tf.cond(tf.reshape(condition.tensor(), []), call(branches[0]), call(branches[1]))
    return [computed(answer) for answer in (answers if isinstance(answers, list | tuple) else [answers])]
