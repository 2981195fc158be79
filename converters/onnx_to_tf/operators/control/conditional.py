"""If. Graphs inside a node see the names around it."""

from __future__ import annotations

from collections.abc import Callable

from ....onnx_graph.graph import Graph
from ...common.tensor_sequence import TensorSequence
from ...lazy_tensorflow import tf
from ...lowerings import ANY, BOOL, lowers
from ...operator_context import OperatorContext
from ...values import TfTensor, Value, computed


@lowers("If", since=1, B=BOOL, V=ANY)
def if_else(op: OperatorContext) -> list[Value]:
    """Lower If: one of two graphs, only that one where the condition is known. Their outputs may differ in size."""
    condition, branches = op.value(0), (op.graph("then_branch"), op.graph("else_branch"))
    if condition.array is not None:
        return op.branch(branches[0] if condition.array.reshape(()) else branches[1], [])
    kinds: list[list[str]] = []
    calls = [_call(op, graph, kinds) for graph in branches]
    answers = tf.cond(tf.reshape(condition.tensor(), []), *calls)
    return [computed(answer) for answer in (answers if isinstance(answers, list | tuple) else [answers])]


def _call(op: OperatorContext, graph: Graph, kinds: list[list[str]]) -> Callable[[], list[TfTensor]]:
    """Return a branch for tf.cond. `kinds`: the outputs of the branches so far, which must be the same for both."""

    def call() -> list[TfTensor]:
        outputs = op.branch(graph, [])
        if any(isinstance(value, TensorSequence) for value in outputs):
            op.refuse("it chooses between sequences of tensors when the model runs")
        kinds.append([f"{value.dtype} of {value.rank} axes" for value in outputs])
        for at, (first, other) in enumerate(zip(kinds[0], kinds[-1], strict=True)):
            if first != other:
                op.refuse(
                    f"its output {at} is {first} in one branch and {other} in the other",
                    fix="make what the condition depends on static, or give both branches the same rank and dtype",
                )
        return [value.tensor() for value in outputs]

    return call
