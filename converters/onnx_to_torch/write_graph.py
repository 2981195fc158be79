"""The walk through a graph: each node by its function, known values folded, and nothing that a node says overlooked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ...models.errors import Refused
from ...models.library_messages import first_line
from ...models.signature import Array
from ..onnx_graph.batched_scan import is_batched_scan
from ..onnx_graph.graph import Graph, Node
from ..onnx_graph.graph_walk import GraphWalk
from ..onnx_graph.lazy_onnx import onnx
from .inner_graphs import Scope
from .module_writer import EagerWriter, ModuleWriter, array_of
from .operators.control.conditional import CONTROL, control
from .safe_names import comment
from .size_arithmetic import computed_each, moved_elements
from .values import Expression, known
from .writers import ORDINARY, CodegenContext, Entry, find

_MOST_FOLDED_BYTES = 2**28  # what is larger is computed when the module runs


class GraphWriter(GraphWalk[Expression]):
    """Writes nodes one after the other into a module."""

    outcome = "become PyTorch"

    def __init__(self, writer: ModuleWriter, functions: Sequence[onnx.FunctionProto] = ()) -> None:
        super().__init__(functions)
        self.writer = writer

    def constants(self, graph: Graph) -> Scope:
        """Return the constants of a graph as expressions, by name."""
        return {name: known(self.writer, array, name) for name, array in graph.constants.items()}

    def convert_node(self, node: Node, scope: Scope) -> Sequence[Expression | None]:
        """Write one node, under a comment with its origin."""
        self.writer.origin = comment(str(node.origin))
        return super().convert_node(node, scope)

    def convert(
        self, node: Node, inputs: Sequence[Expression | None], scope: Scope
    ) -> Sequence[Expression | None] | None:
        """Write one node by its operator function; None where there is none."""
        if node.op_type in CONTROL and not node.domain and not is_batched_scan(node):
            return self._control(node, inputs, scope)
        entry = find(node.domain, node.op_type, node.version)
        if entry is None:
            return None
        if entry.folds and inputs and all(value is None or value.array is not None for value in inputs):
            folded = self._folded(node, inputs, entry)
            if folded is not None:
                return folded
        if any(value is not None and value.parts is not None for value in inputs):
            outputs = self._write_on_sizes(node, inputs, entry)
            if outputs is not None:
                return outputs
        return _answers(CodegenContext(node, inputs, self.writer), entry)

    def _write_on_sizes(
        self, node: Node, inputs: Sequence[Expression | None], entry: Entry
    ) -> Sequence[Expression | None] | None:
        """Write a node on sizes whose outputs are sizes, too; None where they are not."""
        if node.domain:
            return None
        outputs = moved_elements(self.writer, node.op_type, inputs, partial(self._arrays, node, entry))
        if outputs is not None:
            return outputs
        op = CodegenContext(node, inputs, self.writer)
        output = computed_each(op)
        if output is None:
            return None
        op.check_dtypes(entry.dtypes, ORDINARY)
        op.check_all_read([output])
        return [output]

    def _arrays(self, node: Node, entry: Entry, inputs: Sequence[Expression | Array | None]) -> list[Array | None]:
        """Return what a node makes of arrays, by its own function."""
        now = EagerWriter()
        arrays = [value.array if isinstance(value, Expression) else value for value in inputs]
        values = [None if value is None else known(now, value) for value in arrays]
        outputs = _answers(CodegenContext(node, values, now), entry)
        return [None if value is None else _array(value) for value in outputs]

    def _folded(
        self, node: Node, inputs: Sequence[Expression | None], entry: Entry
    ) -> Sequence[Expression | None] | None:
        """Return the outputs of a node whose inputs are all known; None where they are too large."""
        arrays = self._arrays(node, entry, inputs)
        if sum(array.nbytes for array in arrays if array is not None) > _MOST_FOLDED_BYTES:
            return None
        names = [*node.outputs, *[""] * len(arrays)]
        return [None if array is None else known(self.writer, array, name) for array, name in zip(arrays, names)]  # noqa: B905

    def _control(self, node: Node, inputs: Sequence[Expression | None], scope: Scope) -> Sequence[Expression | None]:
        """Write a node with graphs inside."""
        op = CodegenContext(node, inputs, self.writer)
        with _refusing(op):
            answers = control(op, self.run_inside, scope)
        op.check_all_read(answers)
        return answers


def _array(value: Expression) -> Any:
    if value.array is not None:
        return value.array
    code = str(value)
    return array_of(value.writer.scope[code])


def _answers(op: CodegenContext, entry: Entry) -> Sequence[Expression | None]:
    """Call the operator's function and try what it wrote."""
    op.check_dtypes(entry.dtypes, ORDINARY)
    with _refusing(op):
        written = entry.function(op)
        answers = list(written) if isinstance(written, list | tuple) else [written]
        values = [_value(op, at, output) for at, output in enumerate(answers)]
    op.check_all_read(values)
    return values


@contextmanager
def _refusing(op: CodegenContext) -> Iterator[None]:
    """Map errors of PyTorch to Refused with the node's name."""
    try:
        yield
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        said = comment(first_line(error, 300), 240)
        raise Refused(f"{op.node}: PyTorch does not take it: {said}", fix=op.other_route) from error


def _value(op: CodegenContext, at: int, answer: object) -> Expression | None:
    if not isinstance(answer, str):
        return answer if isinstance(answer, Expression) else None
    return op.writer.let(answer, op.node.outputs[at]) if op.wants(at) else None
