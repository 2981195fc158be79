"""Converts one While of TensorFlow, and the lists of tensors that it carries, into a Loop of ONNX.

A list is one tensor with its elements along the first axis. A loop that writes it once in each step, at another place
each time, and does nothing else with it, has what it writes as a scan output. That is the list where step i writes
place i and as many steps run as the list has places; else it is put where the places say. Any other list is carried
from step to step as a whole, which needs the size of its elements before the loop begins.

A loop that only counts (`while i < n`) becomes one of so many steps without a condition: then whoever reads the model
knows how many there are.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ....models.errors import Refused
from .. import private_tf2onnx
from .graph_writer import TfGraphWriter
from .loop_counting import LoopCounting, LoopVariable
from .tensor_lists import (
    add_copy,
    declare_tensor,
    is_list,
    may_grow,
    replace_by_copy,
    reserved_by,
    reserved_zeros,
    with_item_set,
)
from .tf2onnx_graphs import Dtype, Shape, TfGraph, TfNode, constant_integer, constant_of, copy_source, integer_source

_FAR = 2**31  # behind the last axis
_FIX = "serve this model as SavedModel, or write that list in the order of its steps"


@dataclass(frozen=True)
class _StackedList:
    """A list that a loop fills: what reserved it, and what writes it.

    `ordered`: step i writes place i, and as many steps run as there are places. `one_place`: all write one place.
    """

    variable: LoopVariable
    reserved: TfNode
    writer: TfNode
    ordered: bool
    one_place: bool


class LoopConversion:
    """The conversion of one While of TensorFlow into ONNX's Loop."""

    def __init__(self, graph: TfGraph, node: TfNode) -> None:
        self.graph, self.node = graph, node
        # A layer that is called twice has one function for both of its loops.
        self.condition: TfGraph = deepcopy(private_tf2onnx.find_function(node.get_attr_str("cond")))
        self.body: TfGraph = deepcopy(private_tf2onnx.find_function(node.get_attr_str("body")))
        self.condition.parent_graph = self.body.parent_graph = graph
        _rename_inputs(self.body)
        self.counting = LoopCounting(graph, node, self.condition, self.body)
        self.outer, self.inner = TfGraphWriter(graph, node.name), TfGraphWriter(self.body, node.name)
        variables = self.counting.variables
        self.stacked = [stack for variable in variables if (stack := self._stacked(variable)) is not None]
        self.carried: list[tuple[LoopVariable, str]] = []  # with the name of what it is before the loop
        self.results: dict[str, str] = {}  # outputs of the node, and what they are now
        self.types = dict(zip(node.output, zip(node.output_shapes, node.output_dtypes, strict=True), strict=True))

    def convert(self) -> None:
        """Put the loop into the graph in the node's place."""
        self.graph.remove_node(self.node.name)
        steps = self.counting.write_steps(self.outer)
        first, again = ("", "") if steps else self._conditions()
        most = steps or self.counting.write_most_steps(self.outer)
        count, goes_on = self._body_input("step", np.int64), self._body_input("goes_on", np.bool_)
        for variable in self.counting.variables:
            self._place(variable, steps, count.output[0])
        writers = [stack.writer for stack in self.stacked]  # of these nothing is left
        for node in [node for node in self.body.get_nodes() if node.type == "TensorListSetItem"]:
            if all(node is not writer for writer in writers):
                replace_by_copy(self.body, node, with_item_set(self.inner, node))
        carried = [self.body.get_node_by_output(variable.before) for variable, _ in self.carried]
        self.body.inputs = [count, goes_on, *(node for node in carried if node is not None)]
        self.body.outputs = [
            again or self.inner.call("Identity", goes_on.output[0]),
            *(variable.after for variable, _ in self.carried),
            *(self.inner.call("Identity", stack.writer.input[2]) for stack in self.stacked),
            *(self.inner.int64(stack.writer.input[1]) for stack in self.stacked if not stack.ordered),
        ]
        self.body.delete_unused_nodes(self.body.outputs)
        shapes, dtypes = self._output_types()
        loop = self.graph.make_node(
            "Loop", [most or "", first, *(initial for _, initial in self.carried)],
            name=private_tf2onnx.utils.make_name(f"{self.node.name}_loop"), output_count=len(shapes), shapes=shapes,
            dtypes=dtypes, skip_conversion=True, branches={"body": self.body},
        )  # fmt: skip
        self._hand_out(list(loop.output))

    def _stacked(self, variable: LoopVariable) -> _StackedList | None:
        """Return a variable as a list that is written once in each step, always at another place or always at the
        same, where nothing else is done with it."""
        reserved = reserved_by(self.graph, variable.initial)
        writer = self.body.get_node_by_output(copy_source(self.body, variable.after))
        if reserved is None or writer is None or writer.type != "TensorListSetItem":
            return None
        if self._readers(variable.before) != [writer] or self._readers(writer.output[0]):
            return None
        ordered = self._is_ordered(reserved, writer)
        growth = None if may_grow(writer) else self.counting.growth(writer.input[1])
        return _StackedList(variable, reserved, writer, ordered, growth == 0) if ordered or growth is not None else None

    def _is_ordered(self, reserved: TfNode, writer: TfNode) -> bool:
        place = self.counting.by_name.get(integer_source(self.body, writer.input[1]))
        if place is None or (place.start, place.step) != (0, 1):
            return False
        length = reserved.input[1]
        return (may_grow(writer) and constant_integer(self.graph, length) == 0) or self.counting.runs_exactly(length)

    def _readers(self, name: str) -> list[TfNode]:
        """Return what reads a tensor of the body, through copies, also in the loop's condition."""
        consumers = list(self.body.find_output_consumers(name))
        if name in self.counting.by_name:
            place = list(self.body.input_names).index(name)
            consumers += self.condition.find_output_consumers(self.condition.input_names[place])
        readers = [self._readers(node.output[0]) if node.type == "Identity" else [node] for node in consumers]
        return [node for nodes in readers for node in nodes]

    def _place(self, variable: LoopVariable, steps: str | None, count: str) -> None:
        """Make a variable a constant, a function of the step's number, or one that the loop carries."""
        reserved = reserved_by(self.graph, variable.initial)
        if any(variable is stack.variable for stack in self.stacked):
            return
        if self.counting.is_fixed(variable) and reserved is None:
            self._replace(variable, variable.initial)
            self.results[variable.final] = variable.initial
        elif variable.is_counter and (steps is not None or not self._is_read(variable.final)):
            self._replace(variable, self._counter_after(self.inner, variable, count))
            if steps is not None and self._is_read(variable.final):
                all_steps = self.outer.call("Max", steps, self.outer.constant(0))
                self.results[variable.final] = self._counter_after(self.outer, variable, all_steps)
        else:
            self._carry(variable, variable.initial if reserved is None else self._carried_zeros(reserved))

    def _carry(self, variable: LoopVariable, initial: str) -> None:
        """Hand a variable from step to step; it has the shape that all steps agree on."""
        shape, dtype = self.types[variable.final]
        if is_list(dtype):
            known = self.graph.get_shape(initial)
            shape, dtype = None if known is None else [-1, *known[1:]], self.graph.get_dtype(initial)
        declare_tensor(self.body, variable.before, shape, dtype)
        self.carried.append((variable, initial))

    def _counter_after(self, w: TfGraphWriter, counter: LoopVariable, count: str) -> str:
        """Write a counter after `count` steps."""
        value = count if counter.step == 1 else w.call("Mul", count, w.constant(counter.step))
        value = value if not counter.start else w.call("Add", value, w.constant(counter.start))
        return w.call("Cast", value, to=self.body.get_dtype(counter.before))

    def _is_read(self, name: str) -> bool:
        return bool(name in self.graph.outputs or self.graph.find_output_consumers(name))

    def _replace(self, variable: LoopVariable, name: str) -> None:
        """Make a variable of the body the copy of another tensor."""
        (node,) = (node for node in self.body.inputs if node.output[0] == variable.before)
        self.body.inputs = [other for other in self.body.inputs if other is not node]
        node.type = "Identity"
        self.body.replace_inputs(node, [name])

    def _carried_zeros(self, reserved: TfNode) -> str:
        """Write the initial all-zero tensor of a list that the loop carries as a whole."""
        value = constant_of(self.graph.get_node_by_output(copy_source(self.graph, reserved.input[0])))
        shape = None if value is None else value.reshape(-1)
        if shape is None or (shape < 0).any():
            raise Refused(
                f"the loop {self.node.name} writes a list in an order of its own, and how large its elements are is "
                "not known before",
                fix=f"{_FIX}; or give its TensorArray the element_shape",
            )
        element_shape = self.outer.constant(shape, np.int64)
        return reserved_zeros(self.outer, reserved, element_shape, reserved.get_attr_value("element_dtype"))

    def _body_input(self, name: str, dtype: DTypeLike) -> TfNode:
        kind = private_tf2onnx.utils.map_numpy_to_onnx_dtype(np.dtype(dtype))
        return self.body.make_node(
            "Placeholder", [], name=private_tf2onnx.utils.make_name(name), dtypes=[kind], shapes=[[]]
        )

    def _conditions(self) -> tuple[str, str]:
        """Write whether there is a first step, and in the body, whether there is another."""
        first = private_tf2onnx.parameter_binding(
            self.condition, [variable.initial for variable in self.counting.variables]
        )
        again = private_tf2onnx.parameter_binding(self.condition, self.body.outputs)
        return (
            private_tf2onnx.inline_subgraph(self.graph, self.condition, self.node.name, first)[0],
            private_tf2onnx.inline_subgraph(self.body, self.condition, "again", again)[0],
        )

    def _output_types(self) -> tuple[list[Shape | None], list[int | None]]:
        """Return the shapes and dtypes of the loop's outputs."""
        shapes: list[Shape | None] = [self.body.get_shape(variable.before) for variable, _ in self.carried]
        dtypes: list[int | None] = [self.body.get_dtype(variable.before) for variable, _ in self.carried]
        for stack in self.stacked:
            shape = self.body.get_shape(stack.writer.input[2])
            shapes.append(None if shape is None else [-1, *shape])
            dtypes.append(self.body.get_dtype(stack.writer.input[2]))
        unordered = sum(not stack.ordered for stack in self.stacked)
        return [*shapes, *[[-1]] * unordered], [*dtypes, *[Dtype.INT64] * unordered]

    def _hand_out(self, outputs: list[str]) -> None:
        """Give the loop's outputs to those who read the node's."""
        self.results.update(zip((variable.final for variable, _ in self.carried), outputs, strict=False))
        stacks = outputs[len(self.carried) :]
        places = iter(stacks[len(self.stacked) :])
        for stack, rows in zip(self.stacked, stacks, strict=False):
            self.results[stack.variable.final] = rows if stack.ordered else self._scattered(stack, rows, next(places))
        for name, result in self.results.items():
            add_copy(self.graph, result, name, *self.types[name])

    def _scattered(self, stack: _StackedList, rows: str, places: str) -> str:
        """Write the elements that the steps made, at their places among zeros."""
        w = self.outer
        if stack.one_place:
            if constant_integer(self.graph, stack.reserved.input[1]) == 1:
                return self._last(self._or_zeros(stack, rows))
            rows, places = self._last(rows), self._last(places)
        shape = w.call("Slice", w.call("Shape", rows), w.constant([1]), w.constant([_FAR]))
        blank = reserved_zeros(w, stack.reserved, shape, self.graph.get_dtype(rows))
        return w.call("ScatterND", blank, w.unsqueezed(places, 1), rows)

    def _last(self, rows: str) -> str:
        """Take the last row, where there is one."""
        return self.outer.call("Slice", rows, self.outer.constant([-1]), self.outer.constant([_FAR]))

    def _or_zeros(self, stack: _StackedList, rows: str) -> str:
        """Put the rows behind one of zeros, which is the list where no step wrote. Of elements of unknown size
        TensorFlow makes nothing then."""
        shape, w = self.body.get_shape(stack.writer.input[2]), self.outer
        if shape is None or -1 in shape:
            return rows
        zeros = reserved_zeros(w, stack.reserved, w.constant(shape, np.int64), self.graph.get_dtype(rows))
        return w.call("Concat", zeros, rows, axis=0)


def _rename_inputs(body: TfGraph) -> None:
    """Give a body's inputs names that nothing around it has.

    Of loops in loops TensorFlow names some alike, and a name of the body hides the one outside.
    """
    for node in body.inputs:
        name = node.output[0]
        if body.parent_graph.get_node_by_output(name) is None:
            continue
        unique = private_tf2onnx.utils.make_name(name)
        renamed = body.make_node(
            "Placeholder", [], name=unique, outputs=[unique], dtypes=node.output_dtypes, shapes=node.output_shapes
        )
        body.replace_all_inputs(name, unique)
        body.outputs = [unique if output == name else output for output in body.outputs]
        body.inputs = [renamed if other is node else other for other in body.inputs]
        body.remove_node(node.name)
