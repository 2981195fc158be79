"""The walk through a graph: each node by its function, what is known folded, nothing that a node says overlooked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...models.errors import Refused
from ...models.foreign_errors import first_line
from ...models.signature import Array
from ..onnx_graph.graph import Graph, Node
from ..onnx_graph.graph_walk import GraphWalk
from .module_writer import Now, Page, array_of
from .operator_context import Op
from .operators.control.conditional import CONTROL, control
from .safe_names import comment
from .size_arithmetic import computed_each, moves
from .values import Value, known
from .writers import ORDINARY, Entry, find

if TYPE_CHECKING:
    import onnx

Scope = dict[str, Value]
_MOST_FOLDED_BYTES = 2**28  # what is larger is computed when the module runs


class Walk(GraphWalk[Value]):
    """Writes nodes one after the other onto a page."""

    outcome = "become PyTorch"

    def __init__(self, page: Page, functions: Sequence[onnx.FunctionProto] = ()) -> None:
        super().__init__(functions)
        self.page = page

    def constants(self, graph: Graph) -> Scope:
        """Return the constants of a graph as values, by name."""
        return {name: known(self.page, array, name) for name, array in graph.constants.items()}

    def convert_node(self, node: Node, scope: Scope) -> Sequence[Value | None]:
        """Write one node, under a comment with its origin."""
        self.page.origin = comment(str(node.origin))
        return super().convert_node(node, scope)

    def convert(self, node: Node, inputs: Sequence[Value | None], scope: Scope) -> Sequence[Value | None] | None:
        """Write one node by its operator function; None where there is none."""
        if node.op_type in CONTROL and not node.domain:
            return self._control(node, inputs, scope)
        entry = find(node.domain, node.op_type, node.version)
        if entry is None:
            return None
        if entry.folds and inputs and all(each is None or each.array is not None for each in inputs):
            folded = self._folded(node, inputs, entry)
            if folded is not None:
                return folded
        if any(each is not None and each.parts is not None for each in inputs):
            made = self._of_sizes(node, inputs, entry)
            if made is not None:
                return made
        return _answers(Op(node, inputs, self.page), entry)

    def _of_sizes(self, node: Node, inputs: Sequence[Value | None], entry: Entry) -> Sequence[Value | None] | None:
        """The answers of a node on sizes, where they are sizes, too."""
        found = None if node.domain else moves(node.op_type, inputs)
        if found is not None:
            places = self._arrays(node, found.inputs, entry)
            return [None if each is None else found.answer(self.page, each) for each in places]
        op = Op(node, inputs, self.page)
        made = None if node.domain else computed_each(op)
        if made is None:
            return None
        op.check_dtypes(entry.dtypes, ORDINARY)
        op.check_all_read([made])
        return [made]

    def _arrays(self, node: Node, inputs: Sequence[Value | Array | None], entry: Entry) -> list[Array | None]:
        """What a node makes of arrays, by its own function."""
        now = Now()
        arrays = [each.array if isinstance(each, Value) else each for each in inputs]
        given = [None if each is None else known(now, each) for each in arrays]
        made = _answers(Op(node, given, now), entry)
        return [None if each is None else _array(each) for each in made]

    def _folded(self, node: Node, inputs: Sequence[Value | None], entry: Entry) -> Sequence[Value | None] | None:
        """The answers of a node of which everything is known, by the same function; None where they are too large."""
        arrays = self._arrays(node, inputs, entry)
        if sum(each.nbytes for each in arrays if each is not None) > _MOST_FOLDED_BYTES:
            return None
        names = [*node.outputs, *[""] * len(arrays)]
        return [None if each is None else known(self.page, each, name) for each, name in zip(arrays, names)]  # noqa: B905

    def _control(self, node: Node, inputs: Sequence[Value | None], scope: Scope) -> Sequence[Value | None]:
        """A node with graphs inside."""
        op = Op(node, inputs, self.page)
        with _refusing(op):
            answers = control(op, self.run_inside, scope)
        op.check_all_read(answers)
        return answers


def _array(value: Value) -> Any:
    if value.array is not None:
        return value.array
    code = str(value)
    return array_of(value.page.scope[code])


def _answers(op: Op, entry: Entry) -> Sequence[Value | None]:
    """Call the operator's function and try what it wrote."""
    op.check_dtypes(entry.dtypes, ORDINARY)
    with _refusing(op):
        made = entry.function(op)
        answers = list(made) if isinstance(made, list | tuple) else [made]
        values = [_value(op, at, each) for at, each in enumerate(answers)]
    op.check_all_read(values)
    return values


@contextmanager
def _refusing(op: Op) -> Iterator[None]:
    """In which what PyTorch does not take is refused by the node's name."""
    try:
        yield
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        said = comment(first_line(error, 300), 240)
        raise Refused(f"{op.node}: PyTorch does not take it: {said}", fix=op.other_route) from error


def _value(op: Op, at: int, answer: object) -> Value | None:
    if not isinstance(answer, str):
        return answer if isinstance(answer, Value) else None
    return op.page.let(answer, op.node.outputs[at]) if op.wants(at) else None
