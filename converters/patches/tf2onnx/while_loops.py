"""TensorFlow's loops and lists of tensors as ONNX's, for tf2onnx. `register_loops` adds the handlers to its tables.

tf2onnx 1.17 takes whatever a step writes into a list for the next part of a stack, wherever it is written and however
long the list is: a loop that fills its list from the end comes out turned around, with no word. It takes no list that
is read, written twice in a step, handed into a branch or written without a loop.

Here a list is one tensor with its elements along the first axis. A loop that writes it once in each step, at another
place each time, and does nothing else with it, has what it writes as a scan output; that is the list where step i
writes place i and as many steps run as the list has places, and else it is put where the places say. Any other list is
carried from step to step as a whole, which needs the size of its elements before the loop begins.

A loop that only counts (`while i < n`) becomes one of so many steps without a condition: then whoever reads the model
knows how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....models.errors import Refused
from .loop_counting import Builder, Counting, Graph, Node, Variable, number, source, whole
from .tensor_lists import Lists, copied, grows, is_list, replaced, reserved_by, tell, written, zeros

_FAR = 2**31  # behind the last axis
_FIX = "serve this model as SavedModel, or write that list in the order of its steps"


@dataclass(frozen=True)
class Stacked:
    """A list that a loop fills: what reserved it, and what writes it. `ordered`: step i writes place i, and as many
    steps run as there are places. `last`: all write one place."""

    variable: Variable
    reserved: Node
    writer: Node
    ordered: bool
    last: bool


class Loop:
    """TensorFlow's While as ONNX's Loop."""

    def __init__(self, graph: Graph, node: Node) -> None:
        from copy import deepcopy

        from tf2onnx.tf_loader import find_function

        self.graph, self.node = graph, node
        # A layer that is called twice has one function for both of its loops.
        self.condition, self.body = (deepcopy(find_function(node.get_attr_str(each))) for each in ("cond", "body"))
        self.condition.parent_graph = self.body.parent_graph = graph
        _rename_inputs(self.body)
        self.counting = Counting(graph, node, self.condition, self.body)
        self.outer, self.inner = Builder(graph, node.name), Builder(self.body, node.name)
        self.fixed = [each for each in self.counting.variables if self.counting.is_fixed(each)]
        self.stacked = [found for each in self.counting.variables if (found := self._stacked(each)) is not None]
        self.carried: list[tuple[Variable, str]] = []  # with what it is before the loop
        self.made: dict[str, str] = {}  # outputs of the node, and what they are now
        self.kinds = dict(zip(node.output, zip(node.output_shapes, node.output_dtypes, strict=True), strict=True))

    def convert(self) -> None:
        """Put the loop into the graph in the node's place."""
        from tf2onnx import utils

        self.graph.remove_node(self.node.name)
        steps = self.counting.steps(self.outer)
        first, again = ("", "") if steps else self._conditions()
        most = steps or self.counting.most(self.outer)
        count, told = self._input("step", np.int64), self._input("goes_on", np.bool_)
        for each in self.counting.variables:
            self._sort(each, steps, count)
        for node in [each for each in self.body.get_nodes() if each.type == "TensorListSetItem"]:
            self._write(node)
        self.body.inputs = [
            self.body.get_node_by_output(name) for name in (count, told, *(each.before for each, _ in self.carried))
        ]
        self.body.outputs = [
            again or self.inner.call("Identity", told),
            *(each.after for each, _ in self.carried),
            *(self.inner.call("Identity", each.writer.input[2]) for each in self.stacked),
            *(self.inner.int64(each.writer.input[1]) for each in self.stacked if not each.ordered),
        ]
        self.body.delete_unused_nodes(self.body.outputs)
        shapes, dtypes = self._kinds()
        loop = self.graph.make_node(
            "Loop", [most or "", first, *(initial for _, initial in self.carried)],
            name=utils.make_name(f"{self.node.name}_loop"), output_count=len(shapes), shapes=shapes, dtypes=dtypes,
            skip_conversion=True, branches={"body": self.body},
        )  # fmt: skip
        self._hand_out(list(loop.output))

    def _stacked(self, each: Variable) -> Stacked | None:
        """A list that is written once in each step, always at another place or always at the same, where nothing else
        is done with it."""
        reserved = reserved_by(self.graph, each.initial)
        writer = self.body.get_node_by_output(source(self.body, each.after))
        if reserved is None or writer is None or writer.type != "TensorListSetItem":
            return None
        if self._readers(each.before) != [writer] or self._readers(writer.output[0]):
            return None
        ordered = self._is_ordered(reserved, writer)
        growth = None if grows(writer) else self.counting.growth(writer.input[1])
        return Stacked(each, reserved, writer, ordered, growth == 0) if ordered or growth is not None else None

    def _is_ordered(self, reserved: Node, writer: Node) -> bool:
        place = self.counting.places.get(number(self.body, writer.input[1]))
        if place is None or (place.start, place.step) != (0, 1):
            return False
        length = reserved.input[1]
        return (grows(writer) and whole(self.graph, length) == 0) or self.counting.fills(length)

    def _readers(self, name: str) -> list[Node]:
        """Who reads a tensor of the body, under whatever name, and who a variable in the loop's condition."""
        found = list(self.body.find_output_consumers(name))
        if name in self.counting.places:
            place = self.body.input_names.index(name)
            found += self.condition.find_output_consumers(self.condition.input_names[place])
        behind = [self._readers(node.output[0]) if node.type == "Identity" else [node] for node in found]
        return [node for nodes in behind for node in nodes]

    def _sort(self, each: Variable, steps: str | None, count: str) -> None:
        """Say what becomes of a variable."""
        reserved = reserved_by(self.graph, each.initial)
        if any(each is other.variable for other in self.stacked):
            return
        if each in self.fixed and reserved is None:
            self._replace(each, each.initial)
            self.made[each.final] = each.initial
        elif each.is_counter and (steps is not None or not self._is_read(each.final)):
            self._replace(each, self._counted(self.inner, each, count))
            if steps is not None and self._is_read(each.final):
                ran = self.outer.call("Max", steps, self.outer.constant(0))
                self.made[each.final] = self._counted(self.outer, each, ran)
        else:
            self._carry(each, each.initial if reserved is None else self._zeros(reserved))

    def _carry(self, each: Variable, initial: str) -> None:
        """Hand a variable from step to step; it has the shape that all steps agree on."""
        shape, dtype = self.kinds[each.final]
        if is_list(dtype):
            size = None if (found := self.graph.get_shape(initial)) is None else [-1, *found[1:]]
            shape, dtype = size, self.graph.get_dtype(initial)
        tell(self.body, each.before, shape, dtype)
        self.carried.append((each, initial))

    def _counted(self, b: Builder, each: Variable, count: str) -> str:
        """A counter after so many steps."""
        by = count if each.step == 1 else b.call("Mul", count, b.constant(each.step))
        by = by if not each.start else b.call("Add", by, b.constant(each.start))
        return b.call("Cast", by, to=self.body.get_dtype(each.before))

    def _is_read(self, name: str) -> bool:
        return bool(name in self.graph.outputs or self.graph.find_output_consumers(name))

    def _replace(self, each: Variable, name: str) -> None:
        """Make a variable of the body the copy of another tensor."""
        node = self.body.get_node_by_output(each.before)
        self.body.inputs = [other for other in self.body.inputs if other is not node]
        node.type = "Identity"
        self.body.replace_inputs(node, [name])

    def _zeros(self, reserved: Node) -> str:
        """A list that is carried as a whole, before the loop."""
        found = self.graph.get_node_by_output(source(self.graph, reserved.input[0]))
        shape = found.get_tensor_value(as_list=False).reshape(-1) if found is not None and found.is_const() else None
        if shape is None or (shape < 0).any():
            raise Refused(
                f"the loop {self.node.name} writes a list in an order of its own, and how large its elements are is "
                "not known before",
                fix=f"{_FIX}; or give its TensorArray the element_shape",
            )
        return zeros(self.outer, reserved, self.outer.constant(shape), reserved.get_attr_value("element_dtype"))

    def _write(self, node: Node) -> None:
        """A step's writing to a list that is carried; of one that is stacked, nothing is left."""
        if all(node is not each.writer for each in self.stacked):
            replaced(self.body, node, written(self.inner, node))

    def _input(self, name: str, dtype: Any) -> str:
        from tf2onnx import utils

        kind = utils.map_numpy_to_onnx_dtype(np.dtype(dtype))
        return str(
            self.body.make_node("Placeholder", [], name=utils.make_name(name), dtypes=[kind], shapes=[[]]).output[0]
        )

    def _conditions(self) -> tuple[str, str]:
        """Whether there is a first step, and in the body, whether there is another."""
        from tf2onnx.onnx_opset.controlflow import inline_subgraph, parameter_binding

        first = parameter_binding(self.condition, [each.initial for each in self.counting.variables])
        again = parameter_binding(self.condition, self.body.outputs)
        return (
            inline_subgraph(self.graph, self.condition, self.node.name, first)[0],
            inline_subgraph(self.body, self.condition, "again", again)[0],
        )

    def _kinds(self) -> tuple[list[Any], list[Any]]:
        """Shapes and dtypes of what the loop makes."""
        from onnx import TensorProto

        shapes = [self.body.get_shape(each.before) for each, _ in self.carried]
        dtypes = [self.body.get_dtype(each.before) for each, _ in self.carried]
        for stack in self.stacked:
            shape = self.body.get_shape(stack.writer.input[2])
            shapes.append(None if shape is None else [-1, *shape])
            dtypes.append(self.body.get_dtype(stack.writer.input[2]))
        apart = sum(not each.ordered for each in self.stacked)
        return [*shapes, *[[-1]] * apart], [*dtypes, *[TensorProto.INT64] * apart]

    def _hand_out(self, made: list[str]) -> None:
        """Give what the loop makes to those who read the node's outputs."""
        self.made.update(zip((each.final for each, _ in self.carried), made, strict=False))
        stacks = made[len(self.carried) :]
        places = iter(stacks[len(self.stacked) :])
        for each, stack in zip(self.stacked, stacks, strict=False):
            self.made[each.variable.final] = stack if each.ordered else self._scattered(each, stack, next(places))
        for name, now in self.made.items():
            copied(self.graph, now, name, *self.kinds[name])

    def _scattered(self, each: Stacked, stack: str, places: str) -> str:
        """The elements that the steps made, at their places among zeros."""
        b = self.outer
        if each.last:
            if whole(self.graph, each.reserved.input[1]) == 1:
                return self._last(self._or_zeros(each, stack))
            stack, places = self._last(stack), self._last(places)
        shape = b.call("Slice", b.call("Shape", stack), b.constant([1]), b.constant([_FAR]))
        blank = zeros(b, each.reserved, shape, self.graph.get_dtype(stack))
        return b.call("ScatterND", blank, b.call("Unsqueeze", places, b.constant([1])), stack)

    def _last(self, stack: str) -> str:
        """The last row, where there is one."""
        return self.outer.call("Slice", stack, self.outer.constant([-1]), self.outer.constant([_FAR]))

    def _or_zeros(self, each: Stacked, stack: str) -> str:
        """The rows, behind one of zeros: that is what a list has into which no step wrote. Of elements whose size is
        not known TensorFlow makes nothing then."""
        shape, b = self.body.get_shape(each.writer.input[2]), self.outer
        if shape is None or -1 in shape:
            return stack
        return b.call("Concat", zeros(b, each.reserved, b.constant(shape), self.graph.get_dtype(stack)), stack, axis=0)


def _rename_inputs(body: Graph) -> None:
    """Give a body's inputs names that nothing around it has: of loops in loops TensorFlow names some alike, and a name
    of the body hides the one outside."""
    from tf2onnx import utils

    for node in body.inputs:
        name = node.output[0]
        if body.parent_graph.get_node_by_output(name) is None:
            continue
        apart = utils.make_name(name)
        made = body.make_node(
            "Placeholder", [], name=apart, outputs=[apart], dtypes=node.output_dtypes, shapes=node.output_shapes
        )
        body.replace_all_inputs(name, apart)
        body.outputs = [apart if each == name else each for each in body.outputs]
        body.inputs = [made if each is node else each for each in body.inputs]
        body.remove_node(node.name)


class While:
    """tf2onnx's own handler has the loops over ragged lists, which are no tensors."""

    @classmethod
    def version_13(cls, ctx: Graph, node: Node, **options: object) -> None:
        """Ours, or tf2onnx's."""
        from tf2onnx.onnx_opset.controlflow import While as Theirs
        from tf2onnx.tf_loader import find_function

        body = find_function(node.get_attr_str("body"))
        if body.ragged_variant_list_reads or body.ragged_variant_list_writes:
            Theirs.version_7(ctx, node, **options)
        else:
            Loop(ctx, node).convert()


class If:
    """A stack of what a loop has made, where it made something, and else nothing in that shape: so our lowering writes
    it, as TensorFlow has no stack of no elements whose size is not known. ONNX has. All else is tf2onnx's own."""

    @classmethod
    def version_13(cls, ctx: Graph, node: Node, **options: object) -> None:
        """Ours, or tf2onnx's."""
        from tf2onnx.onnx_opset.controlflow import IfOp, StatelessIfOp

        stacks = _stacks(ctx, node) if len(node.input) > 1 else None  # of tf2onnx's own, without inputs, one is done
        if stacks is None:
            (IfOp if node.type == "If" else StatelessIfOp).version_1(ctx, node, **options)
            return
        kinds = list(zip(node.output, node.output_shapes, node.output_dtypes, strict=True))
        ctx.remove_node(node.name)
        for stack, (name, shape, dtype) in zip(stacks, kinds, strict=True):
            copied(ctx, stack, name, shape, dtype)


def _stacks(graph: Graph, node: Node) -> list[str] | None:
    """What the outputs of an If are in either case, where all are stacks of a loop's steps, and else None."""
    from tf2onnx.tf_loader import find_function

    then, otherwise = (find_function(node.get_attr_str(each)) for each in ("then_branch", "else_branch"))
    given = dict(zip(then.input_names, node.input[1:], strict=True))
    stacks = [source(graph, given.get(source(then, name), "")) for name in then.outputs]
    empty = all((otherwise.get_shape(name) or [None])[0] == 0 for name in otherwise.outputs)
    return stacks if empty and all(_has_steps(graph, node.input[0], stack) for stack in stacks) else None


def _has_steps(graph: Graph, condition: str, stack: str) -> bool:
    """Whether a condition is that the loop that made a stack ran at all."""
    loop, asked = (graph.get_node_by_output(name) for name in (stack, source(graph, condition)))
    if loop is None or loop.type != "Loop" or asked is None or asked.type != "Greater":
        return False
    if list(loop.output).index(stack) < len(loop.input) - 2 or whole(graph, asked.input[1]) != 0:
        return False
    ran = graph.get_node_by_output(number(graph, asked.input[0]))
    return bool(ran is not None and ran.type == "Max" and ran.input[0] == loop.input[0])


class TfliteWhile:
    """tf2onnx's own, which asks a condition before each step, told how many steps there are."""

    @classmethod
    def version_7(cls, ctx: Graph, node: Node, **options: object) -> None:
        """A loop without a condition, where it only counts."""
        from tf2onnx.tf_loader import find_function
        from tf2onnx.tflite_handlers.tfl_controlflow import TflWhile

        condition, body = (find_function(node.get_attr_str(f"{each}_subgraph_index")) for each in ("cond", "body"))
        steps = Counting(ctx, node, condition, body).steps(Builder(ctx, node.name))
        body.scan_outputs += [each for each in _grown(ctx, node, body) if each[0] not in dict(body.scan_outputs)]
        TflWhile.version_7(ctx, node, **options)
        if steps is not None:
            loop = ctx.get_node_by_name(f"{node.name}_loop")
            ctx.replace_inputs(loop, [steps, "", *loop.input[2:]])
            inner = loop.get_body_graphs()["body"]
            inner.outputs[0] = Builder(inner, node.name).call("Identity", inner.input_names[1])


def _grown(graph: Graph, node: Node, body: Graph) -> Iterator[tuple[int, str]]:
    """The variables that are empty before the loop, and to which each step joins one row at the end and does nothing
    else with them: their places, and the row. Shaped anew before, they have the same elements in the same order."""
    for place, (name, before) in enumerate(zip(node.input, body.input_names, strict=True)):
        joined = body.get_node_by_output(source(body, body.outputs[place]))
        if (graph.get_shape(name) or [None])[0] != 0 or joined.type != "Concat" or len(joined.input) != 2:
            continue
        held, row = joined.input
        shaped = body.get_node_by_output(source(body, held))
        held = source(body, shaped.input[0] if shaped.type == "Reshape" else held)
        alone = all(len(body.find_output_consumers(each)) == 1 for each in (before, joined.input[0]))
        unread = len(body.find_output_consumers(joined.output[0])) + (joined.output[0] in body.outputs) == 1
        is_row = joined.get_attr_value("axis") == 0 and (body.get_shape(row) or [None])[0] == 1
        if held == before and alone and unread and is_row:
            yield place, row


_LISTS = [
    "TensorListStack", "TensorListFromTensor", "TensorListGetItem", "TensorListLength", "TensorListSetItem",
    "TensorListReserve", "TensorListGather",
]  # fmt: skip
LOOPS = ["While", "StatelessWhile", "TFL_WHILE", *_LISTS]


def register_loops() -> None:
    """Add the handlers to tf2onnx's tables."""
    from tf2onnx.handler import tf_op, tfl_op

    tf_op(LOOPS[:2])(While)
    tfl_op(LOOPS[2:3])(TfliteWhile)
    tf_op(_LISTS)(Lists)
    tf_op(["If", "StatelessIf"])(If)
