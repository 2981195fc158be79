"""The walk through a graph: each node by its lowering, what is known folded, nothing that a node says overlooked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from ...models.errors import Refused
from ...models.foreign_errors import first_line
from ..onnx_graph.function_bodies import body_of
from ..onnx_graph.graph import Graph, Node, type_variable
from ..onnx_graph.local_functions import Functions
from .dtype_promotion import carried, restored
from .kernels import TENSORFLOW, Kernels
from .lazy_tensorflow import tf
from .lowerings import ANY, NARROW, Entry, find
from .narrow_dtypes import CARRIERS
from .operator_context import Op
from .values import TfTensor, Value, known
from .weight_variables import Weights

if TYPE_CHECKING:
    import onnx

Scope = dict[str, Value]
NOT_FOLDED = frozenset({"If", "Loop", "Scan", "SequenceMap"})  # their graphs fold by themselves


class Walk:
    """Lowers nodes one after the other, with the weights and the kernels of one model."""

    def __init__(
        self, weights: Weights, kernels: Kernels = TENSORFLOW, functions: Sequence[onnx.FunctionProto] = ()
    ) -> None:
        self.weights = weights
        self.kernels = kernels
        self.functions = Functions(functions)
        self.made: list[tuple[TfTensor, Node]] = []  # what each node computes; of inner graphs, too

    def constants(self, graph: Graph) -> Scope:
        """What a graph knows by heart."""
        return {name: known(array, self.weights) for name, array in graph.constants.items()}

    def run(self, nodes: Sequence[Node], scope: Scope) -> None:
        """Lower nodes in their order; `scope` holds the values by name and takes in the new ones."""
        for node in nodes:
            answers = self.lower_node(node, scope)
            self.made += [(value.native, node) for value in answers if value is not None and value.native is not None]
            scope.update(
                {name: value for name, value in zip(node.outputs, answers, strict=False) if name and value is not None}
            )

    def run_inside(self, graph: Graph, inputs: Sequence[Value], scope: Scope) -> list[Value]:
        """The outputs of a graph inside a node: names that it does not make come from around the node."""
        inner = {**scope, **self.constants(graph)}
        inner.update(zip(graph.inputs, inputs, strict=True))
        self.run(graph.nodes, inner)
        return [inner[name] for name in graph.outputs]

    def lower_node(self, node: Node, scope: Scope) -> Sequence[Value | None]:
        """What one node makes of its inputs, which are in `scope`.

        Raises Refused, with the node's name and origin.
        """
        inputs = [scope[name] if name else None for name in node.inputs]
        if self.functions.knows(node):
            return self._call(node, inputs)
        entry = find(node.domain, node.op_type, node.version)
        if entry is None:
            return self._lower_body(node, inputs)
        fold = node.op_type not in NOT_FOLDED and entry.folds and not any(each and each.computing for each in inputs)
        kernels = TENSORFLOW if fold else self.kernels
        given = carried(node, inputs, kernels.wider)
        op = Op(node, given, self.weights, kernels, lambda graph, values: self._run_branch(op, graph, values, scope))
        check_dtypes(op, inputs, entry)
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

    def _lower_body(self, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
        """The node by the body that its specification gives it."""
        body = body_of(node, inputs)
        if body is None:
            raise Refused(
                f"{node}: the operator, as opset {node.opset} words it, is not among those that can be lowered",
                fix=Op.other_route,
            )
        return self._run_body(node, body, inputs)

    def _call(self, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
        """The node by the function of the model that it calls."""
        with self.functions.called(node, inputs) as body:
            return self._run_body(node, body, inputs)

    def _run_body(self, node: Node, body: Graph, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
        """What a body makes; it sees the node's inputs and nothing else around it."""
        made = iter(self.run_inside(body, [value for value in inputs if value is not None], {}))
        return [next(made) if name else None for name in node.outputs]

    def _answers(self, op: Op, inputs: Sequence[Value | None], entry: Entry, *, fold: bool) -> Sequence[Value | None]:
        """Call the operator's function; at once, outside the graph, where all that it reads is known."""
        try:
            with tf.init_scope() if fold else nullcontext():
                made = entry.function(op)
                answers = [made] if isinstance(made, Value) else list(made)
                _name_carried(op.node, inputs, answers)
                return [self._folded(each) for each in answers] if fold else answers
        except (ValueError, TypeError, NotImplementedError, tf.errors.OpError) as error:
            raise Refused(
                f"{op.node}: TensorFlow does not take it: {first_line(error, 300)}", fix=Op.other_route
            ) from error

    def _folded(self, value: Value | None) -> Value | None:
        if value is None or value.native is None:
            return value
        return known(value.tensor().numpy().astype(value.dtype, copy=False), self.weights)


def check_dtypes(op: Op, inputs: Sequence[Value | None], entry: Entry) -> None:
    """Hold each input's dtype against what the lowering takes, by the type variables of the specification.

    Raises Refused. An operator that onnx does not define is checked by the lowering's only set, if it names one.
    """
    for at, value in enumerate(inputs):
        allowed = entry.dtypes.get(type_variable(op.node, at))
        if value is not None and allowed is not None and not _takes(allowed, value.dtype):
            op.refuse(
                f"its input {at} is {value.dtype}, and only {', '.join(sorted(allowed))} can be carried",
                fix="cast it to another dtype in the model",
            )


def _takes(allowed: frozenset[str], dtype: str) -> bool:
    """Whoever takes ANY only moves what it is given, and so moves what lies in a carrier too."""
    return dtype in allowed or (dtype in NARROW and allowed >= ANY)


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


def _name_carried(node: Node, inputs: Sequence[Value | None], answers: Sequence[Value | None]) -> None:
    """Write the dtype's own name to what was only moved, where its tensor lies in a carrier."""
    narrow = {
        type_variable(node, at): value.dtype
        for at, value in enumerate(inputs)
        if value is not None and value.dtype in CARRIERS
    }
    for at, answer in enumerate(answers if narrow else ()):
        dtype = narrow.get(type_variable(node, at, made=True), "")
        if answer is not None and answer.computing and answer.dtype == CARRIERS.get(dtype):
            answer.dtype = dtype
