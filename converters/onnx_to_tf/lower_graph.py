"""The lowering of a graph, node by node: constants are folded, and nothing that a node says is overlooked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from ...models.errors import Refused
from ...models.library_messages import first_line
from ..onnx_graph.graph import Graph, Node, type_variable
from ..onnx_graph.graph_walk import GraphWalk
from .dtype_promotion import demote_results, promote_inputs
from .kernels.dialects import TENSORFLOW, Kernels
from .lazy_tensorflow import tf
from .lowerings import Entry, find
from .narrow_dtypes import CARRIERS
from .operator_context import OperatorContext
from .values import TfTensor, Value, known
from .weight_variables import Weights

if TYPE_CHECKING:
    import onnx

Scope = dict[str, Value]
NOT_FOLDED = frozenset({"If", "Loop", "Scan", "SequenceMap"})  # their graphs fold by themselves


class GraphLowering(GraphWalk[Value]):
    """Lowers nodes one after the other, with the weights and the kernels of one model."""

    outcome = "can be lowered"

    def __init__(
        self, weights: Weights, kernels: Kernels = TENSORFLOW, functions: Sequence[onnx.FunctionProto] = ()
    ) -> None:
        super().__init__(functions)
        self.weights = weights
        self.kernels = kernels
        self.results: list[tuple[TfTensor, Node]] = []  # what each node computes; of inner graphs, too

    def constants(self, graph: Graph) -> Scope:
        """Return the constants of a graph as values, by name."""
        return {name: known(array, self.weights) for name, array in graph.constants.items()}

    def convert_node(self, node: Node, scope: Scope) -> Sequence[Value | None]:
        """Lower one node, and keep which tensors it computes."""
        outputs = super().convert_node(node, scope)
        self.results += [(value.native, node) for value in outputs if value is not None and value.native is not None]
        return outputs

    def convert(self, node: Node, inputs: Sequence[Value | None], scope: Scope) -> Sequence[Value | None] | None:
        """Lower one node by its operator function; None where there is none."""
        entry = find(node.domain, node.op_type, node.version)
        if entry is None:
            return None
        computing = any(value is not None and value.computing for value in inputs)
        fold = node.op_type not in NOT_FOLDED and entry.folds and not computing
        kernels = TENSORFLOW if fold else self.kernels

        def branch(graph: Graph, values: Sequence[Value]) -> list[Value]:
            return self._run_branch(op, graph, values, scope)

        op = OperatorContext(node, promote_inputs(node, inputs, kernels.wider), self.weights, kernels, branch)
        op.check_dtypes(entry.dtypes, of=inputs)
        results = self._results(op, inputs, entry, fold=fold)
        op.check_all_read(results)
        return _with_specified_dtypes(node, inputs, results, kernels)

    def _run_branch(self, op: OperatorContext, graph: Graph, inputs: Sequence[Value], scope: Scope) -> list[Value]:
        """Return the outputs of a graph inside the node, which leave it as TensorFlow's tensors and need its dtypes."""
        outputs = self.run_inside(graph, inputs, scope)
        for value in outputs:
            if value.dtype in CARRIERS:
                op.refuse(f"a graph inside it makes a {value.dtype}", fix="cast it inside that graph")
        return outputs

    def _results(
        self, op: OperatorContext, inputs: Sequence[Value | None], entry: Entry, *, fold: bool
    ) -> Sequence[Value | None]:
        """Call the operator's function; at once, outside the graph, where all of its inputs are known."""
        try:
            with tf.init_scope() if fold else nullcontext():
                lowered = entry.function(op)
                results = _with_narrow_dtypes(op.node, inputs, [lowered] if isinstance(lowered, Value) else lowered)
                return [self._folded(value) for value in results] if fold else results
        except (ValueError, TypeError, NotImplementedError, tf.errors.OpError) as error:
            raise Refused(
                f"{op.node}: TensorFlow does not take it: {first_line(error, 300)}", fix=OperatorContext.other_route
            ) from error

    def _folded(self, value: Value | None) -> Value | None:
        if value is None or value.native is None:
            return value
        return known(value.tensor().numpy().astype(value.dtype, copy=False), self.weights)


def _with_specified_dtypes(
    node: Node, inputs: Sequence[Value | None], results: Sequence[Value | None], kernels: Kernels
) -> Sequence[Value | None]:
    """Return the results in the dtypes of the specification, where the dialect's kernels worked in wider ones."""
    narrow = _dtypes_by_variable(node, inputs, kernels.wider)
    if not narrow:
        return results
    variables = [type_variable(node, at, of_output=True) for at in range(len(results))]
    return demote_results(node, results, variables, narrow, kernels.wider)


def _with_narrow_dtypes(
    node: Node, inputs: Sequence[Value | None], results: Sequence[Value | None]
) -> list[Value | None]:
    """Return the results with the dtype's own name where a value was only moved and its tensor lies in a carrier."""
    narrow = _dtypes_by_variable(node, inputs, CARRIERS)
    named = list(results)
    for at, value in enumerate(results if narrow else ()):
        dtype = narrow.get(type_variable(node, at, of_output=True), "")
        if value is not None and value.computing and value.dtype == CARRIERS.get(dtype):
            named[at] = replace(value, dtype=dtype)
    return named


def _dtypes_by_variable(node: Node, inputs: Sequence[Value | None], replaced: Mapping[str, str]) -> dict[str, str]:
    """Return the dtypes of inputs that have a replacement, by the type variables of the specification."""
    return {
        type_variable(node, at): value.dtype
        for at, value in enumerate(inputs)
        if value is not None and value.dtype in replaced
    }
