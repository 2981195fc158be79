"""The walk through a graph: each node by its lowering, what is known folded, nothing that a node says overlooked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from ...models.errors import Refused
from ...models.foreign_errors import first_line
from ..onnx_graph.graph import Graph, Node, type_variable
from ..onnx_graph.graph_walk import GraphWalk
from .dtype_promotion import carried, restored
from .kernels.dialects import TENSORFLOW, Kernels
from .lazy_tensorflow import tf
from .lowerings import Entry, find
from .narrow_dtypes import CARRIERS
from .operator_context import Op
from .values import TfTensor, Value, known
from .weight_variables import Weights

if TYPE_CHECKING:
    import onnx

Scope = dict[str, Value]
NOT_FOLDED = frozenset({"If", "Loop", "Scan", "SequenceMap"})  # their graphs fold by themselves


class Walk(GraphWalk[Value]):
    """Lowers nodes one after the other, with the weights and the kernels of one model."""

    outcome = "can be lowered"

    def __init__(
        self, weights: Weights, kernels: Kernels = TENSORFLOW, functions: Sequence[onnx.FunctionProto] = ()
    ) -> None:
        super().__init__(functions)
        self.weights = weights
        self.kernels = kernels
        self.made: list[tuple[TfTensor, Node]] = []  # what each node computes; of inner graphs, too

    def constants(self, graph: Graph) -> Scope:
        """Return the constants of a graph as values, by name."""
        return {name: known(array, self.weights) for name, array in graph.constants.items()}

    def convert_node(self, node: Node, scope: Scope) -> Sequence[Value | None]:
        """Lower one node, and keep which tensors it computes."""
        outputs = super().convert_node(node, scope)
        self.made += [(value.native, node) for value in outputs if value is not None and value.native is not None]
        return outputs

    def convert(self, node: Node, inputs: Sequence[Value | None], scope: Scope) -> Sequence[Value | None] | None:
        """Lower one node by its operator function; None where there is none."""
        entry = find(node.domain, node.op_type, node.version)
        if entry is None:
            return None
        fold = node.op_type not in NOT_FOLDED and entry.folds and not any(each and each.computing for each in inputs)
        kernels = TENSORFLOW if fold else self.kernels
        given = carried(node, inputs, kernels.wider)
        op = Op(node, given, self.weights, kernels, lambda graph, values: self._run_branch(op, graph, values, scope))
        op.check_dtypes(entry.dtypes, of=inputs)
        answers = self._answers(op, inputs, entry, fold=fold)
        op.check_all_read(answers)
        return _restored(node, inputs, answers, kernels)

    def _run_branch(self, op: Op, graph: Graph, given: Sequence[Value], scope: Scope) -> list[Value]:
        """The outputs of a graph inside the node; they leave it as TensorFlow's tensors, and so need its dtypes."""
        made = self.run_inside(graph, given, scope)
        for value in made:
            if value.dtype in CARRIERS:
                op.refuse(f"a graph inside it makes a {value.dtype}", fix="cast it inside that graph")
        return made

    def _answers(self, op: Op, inputs: Sequence[Value | None], entry: Entry, *, fold: bool) -> Sequence[Value | None]:
        """Call the operator's function; at once, outside the graph, where all that it reads is known."""
        try:
            with tf.init_scope() if fold else nullcontext():
                made = entry.function(op)
                answers = [made] if isinstance(made, Value) else list(made)
                answers = _with_narrow_dtypes(op.node, inputs, answers)
                return [self._folded(each) for each in answers] if fold else answers
        except (ValueError, TypeError, NotImplementedError, tf.errors.OpError) as error:
            raise Refused(
                f"{op.node}: TensorFlow does not take it: {first_line(error, 300)}", fix=Op.other_route
            ) from error

    def _folded(self, value: Value | None) -> Value | None:
        if value is None or value.native is None:
            return value
        return known(value.tensor().numpy().astype(value.dtype, copy=False), self.weights)


def _restored(
    node: Node, inputs: Sequence[Value | None], answers: Sequence[Value | None], kernels: Kernels
) -> Sequence[Value | None]:
    """The answers in the dtypes of the specification, where the dialect's kernels worked in wider ones."""
    narrow = {
        type_variable(node, at): value.dtype
        for at, value in enumerate(inputs)
        if value is not None and value.dtype in kernels.wider
    }
    if not narrow:
        return answers
    made = [type_variable(node, at, made=True) for at in range(len(answers))]
    return restored(node, answers, made, narrow, kernels.wider)


def _with_narrow_dtypes(
    node: Node, inputs: Sequence[Value | None], answers: Sequence[Value | None]
) -> list[Value | None]:
    """Return the results with the dtype's own name where a value was only moved and its tensor lies in a carrier."""
    narrow = {
        type_variable(node, at): value.dtype
        for at, value in enumerate(inputs)
        if value is not None and value.dtype in CARRIERS
    }
    named = list(answers)
    for at, answer in enumerate(answers if narrow else ()):
        dtype = narrow.get(type_variable(node, at, made=True), "")
        if answer is not None and answer.computing and answer.dtype == CARRIERS.get(dtype):
            named[at] = replace(answer, dtype=dtype)
    return named
