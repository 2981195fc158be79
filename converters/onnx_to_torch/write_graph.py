"""The walk through a graph: each node by its function, what is known folded, nothing that a node says overlooked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...models.errors import Refused
from ...models.foreign_errors import first_line
from ...models.signature import Array
from ..onnx_graph.function_bodies import body_of
from ..onnx_graph.graph import Graph, Node, type_variable
from ..onnx_graph.local_functions import Functions
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


class Walk:
    """Writes nodes one after the other onto a page."""

    def __init__(self, page: Page, functions: Sequence[onnx.FunctionProto] = ()) -> None:
        self.page = page
        self.functions = Functions(functions)

    def run_inside(self, graph: Graph, inputs: Sequence[Value], scope: Scope) -> list[Value]:
        """The outputs of a graph; names that it does not make come from around it."""
        inner = {**scope, **{name: known(self.page, array, name) for name, array in graph.constants.items()}}
        inner.update(zip(graph.inputs, inputs, strict=True))
        for node in graph.nodes:
            answers = self.write_node(node, inner)
            inner.update(
                {name: value for name, value in zip(node.outputs, answers, strict=False) if name and value is not None}
            )
        return [inner[name] for name in graph.outputs]

    def write_node(self, node: Node, scope: Scope) -> Sequence[Value | None]:
        """What one node makes of its inputs, which are in `scope`.

        Raises Refused, with the node's name and origin.
        """
        self.page.origin = comment(str(node.origin))
        inputs = [scope[name] if name else None for name in node.inputs]
        if self.functions.knows(node):
            return self._call(node, inputs)
        if node.op_type in CONTROL and not node.domain:
            return self._control(node, inputs, scope)
        entry = find(node.domain, node.op_type, node.version)
        if entry is None:
            return self._body(node, inputs)
        if entry.folds and inputs and all(each is None or each.array is not None for each in inputs):
            folded = self._folded(node, inputs, entry)
            if folded is not None:
                return folded
        if any(each is not None and each.parts is not None for each in inputs):
            made = self._of_sizes(node, inputs, entry)
            if made is not None:
                return made
        return _answers(Op(node, inputs, self.page), inputs, entry)

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
        _check_dtypes(op, inputs, entry)
        op.check_all_read([made])
        return [made]

    def _arrays(self, node: Node, inputs: Sequence[Value | Array | None], entry: Entry) -> list[Array | None]:
        """What a node makes of arrays, by its own function."""
        now = Now()
        arrays = [each.array if isinstance(each, Value) else each for each in inputs]
        given = [None if each is None else known(now, each) for each in arrays]
        made = _answers(Op(node, given, now), given, entry)
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

    def _body(self, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
        """The node by the body that its specification gives it."""
        body = body_of(node, inputs)
        if body is None:
            raise Refused(
                f"{node}: the operator, as opset {node.opset} words it, is not among those that become PyTorch",
                fix=Op.other_route,
            )
        return self._run_body(node, body, inputs)

    def _call(self, node: Node, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
        """The node by the function of the model that it calls."""
        with self.functions.called(node, inputs) as body:
            return self._run_body(node, body, inputs)

    def _run_body(self, node: Node, body: Graph, inputs: Sequence[Value | None]) -> Sequence[Value | None]:
        made = iter(self.run_inside(body, [value for value in inputs if value is not None], {}))
        return [next(made) if name else None for name in node.outputs]


def _array(value: Value) -> Any:
    if value.array is not None:
        return value.array
    code = str(value)
    return array_of(value.page.scope[code])


def _answers(op: Op, inputs: Sequence[Value | None], entry: Entry) -> Sequence[Value | None]:
    """Call the operator's function and try what it wrote."""
    _check_dtypes(op, inputs, entry)
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


def _check_dtypes(op: Op, inputs: Sequence[Value | None], entry: Entry) -> None:
    for at, value in enumerate(inputs):
        allowed = entry.dtypes.get(type_variable(op.node, at), ORDINARY)
        if value is not None and value.dtype not in allowed:
            op.refuse(
                f"its input {at} is {value.dtype}, and only {', '.join(sorted(allowed))} can be carried",
                fix="cast it to another dtype in the model",
            )
