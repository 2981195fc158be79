"""What tf2onnx's graphs say of a loop: what its variables are, which of them count, and how often it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

Graph: TypeAlias = Any  # tf2onnx has no types
Node: TypeAlias = Any

_COMPARED = {"Less": (0, 1, 0), "LessOrEqual": (0, 1, 1), "Greater": (1, 0, 0), "GreaterOrEqual": (1, 0, 1)}


def source(graph: Graph, name: str) -> str:
    """What a tensor is the copy of."""
    node = graph.get_node_by_output(name)
    return source(graph, node.input[0]) if node is not None and node.type == "Identity" else name


def number(graph: Graph, name: str) -> str:
    """What a number is the copy of, also in another dtype where that is a whole number."""
    from onnx import TensorProto

    name = source(graph, name)
    node = graph.get_node_by_output(name)
    whole = (TensorProto.INT32, TensorProto.INT64)
    is_cast = node is not None and node.type == "Cast" and graph.get_dtype(node.input[0]) in whole
    return number(graph, node.input[0]) if is_cast else name


def whole(graph: Graph, name: str) -> int | None:
    """The whole number that a tensor always is, or None."""
    node = graph.get_node_by_output(number(graph, name))
    if node is None or not node.is_const():
        return None
    value = node.get_tensor_value(as_list=False)
    return int(value) if not value.ndim and value.dtype.kind == "i" else None


class Builder:
    """Adds nodes to a graph. Each method gives the name of what it makes."""

    def __init__(self, graph: Graph, scope: str) -> None:
        self.graph, self.scope = graph, scope

    def call(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        made = self.graph.make_node(operator, list(inputs), attr=attributes, op_name_scope=self.scope)
        return str(made.output[0])

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """A constant."""
        from tf2onnx import utils

        return str(self.graph.make_const(utils.make_name(f"{self.scope}_const"), np.array(value, dtype)).output[0])

    def int64(self, name: str, shape: Sequence[int] = ()) -> str:
        """A number as int64, in a shape of one element."""
        from onnx import TensorProto

        return self.call("Reshape", self.call("Cast", name, to=TensorProto.INT64), self.constant([*shape]))

    def zeros(self, length: str, shape: str, like: int) -> str:
        """Of so many elements (int64[1]) of a shape (int64[rank]), of ONNX's dtype `like`."""
        return self.call("Expand", self.zero(like), self.call("Concat", length, shape, axis=0))

    def zero(self, like: int) -> str:
        """The number 0 in ONNX's dtype `like`."""
        from onnx.helper import tensor_dtype_to_np_dtype

        return self.constant(0, tensor_dtype_to_np_dtype(like))


@dataclass(frozen=True)
class Variable:
    """What a loop carries at a place: before the loop, at the start and the end of a step, and behind the loop."""

    initial: str
    before: str
    after: str
    final: str
    start: int | None = None  # of a counter: where it starts, if that is known, and what each step adds to it
    step: int = 0

    @property
    def is_counter(self) -> bool:
        """Whether its number in each step is known."""
        return self.start is not None and self.step != 0


class Counting:
    """What a loop's variables are, and how often it runs. `condition` and `body`: its functions."""

    def __init__(self, graph: Graph, node: Node, condition: Graph, body: Graph) -> None:
        self.graph, self.node, self.condition, self.body = graph, node, condition, body
        names = list(zip(node.input, body.input_names, body.outputs, node.output, strict=True))
        self._initial = {before: initial for initial, before, after, _ in names if source(body, after) == before}
        self.variables = [self._variable(*each) for each in names]
        self.places = {each.before: each for each in self.variables}

    def _variable(self, initial: str, before: str, after: str, final: str) -> Variable:
        step = self._step(before, self.body.get_node_by_output(number(self.body, after)))
        start = None if step is None else whole(self.graph, initial)
        return Variable(initial, before, after, final, start, step or 0)

    def _step(self, before: str, node: Node | None) -> int | None:
        """What a node adds to a variable, where that is always the same."""
        if node is None or node.type not in ("Add", "Sub"):
            return None
        added = [name for name in node.input if number(self.body, name) != before]
        step = self._always(added[0]) if len(added) == 1 else None
        if node.type == "Add" or step is None:
            return step
        return -step if added[0] == node.input[1] else None

    def is_fixed(self, variable: Variable) -> bool:
        """Whether every step hands it on as it is."""
        return variable.before in self._initial

    def _always(self, name: str) -> int | None:
        """The whole number that a tensor of the body always is, or None."""
        initial = self._initial.get(number(self.body, name))
        return whole(self.body, name) if initial is None else whole(self.graph, initial)

    def growth(self, name: str) -> int | None:
        """What a number in a step grows by from step to step, or None where that is not the same each time."""
        body, name = self.body, number(self.body, name)
        if name in self.places:
            variable = self.places[name]
            return 0 if self.is_fixed(variable) else variable.step or None
        node = body.get_node_by_output(name)
        if node is None or node.is_const():
            return None if node is None else 0
        if node.type not in ("Add", "Sub", "Mul"):
            return None
        left, right = (self.growth(each) for each in node.input)
        if left is None or right is None:
            return None
        if node.type == "Mul":
            by, to = (self._always(each) for each in node.input)
            return left * to if to is not None else None if by is None else right * by
        return left + right if node.type == "Add" else left - right

    @cached_property
    def bounds(self) -> list[tuple[Variable, str, int]] | None:
        """Where all that the loop asks is whether counters have come to numbers that no step changes: each counter, the
        number's name outside, and how many more it may come to. Else None."""
        return [each for each in self._asked if each is not None] if all(self._asked) else None

    @cached_property
    def _asked(self) -> list[tuple[Variable, str, int] | None]:
        """What the loop asks, one by one: a bound, or None for anything else."""
        return [self._bound(each) for each in self._conjuncts(self.condition.outputs[0])]

    def _conjuncts(self, name: str) -> Iterator[Node]:
        node = self.condition.get_node_by_output(number(self.condition, name))
        if node is not None and node.type == "And":
            for each in node.input:
                yield from self._conjuncts(each)
        elif node is None or not (node.is_const() and node.get_tensor_value(as_list=False).all()):
            yield node

    def _bound(self, node: Node) -> tuple[Variable, str, int] | None:
        if node is None or node.type not in _COMPARED:
            return None
        low, high, more = _COMPARED[node.type]
        inputs = [number(self.condition, each) for each in node.input]
        outer = dict(zip(self.condition.input_names, self.variables, strict=True))
        for counter, limit, sign in ((low, high, 1), (high, low, -1)):
            counts = outer.get(inputs[counter])
            if counts is not None and counts.step * sign > 0:
                bound = self._limit(inputs[limit], outer)
                return None if bound is None else (counts, bound, more)
        return None

    def _limit(self, name: str, outer: Mapping[str, Variable]) -> str | None:
        """What a number of the condition is called outside, where no step changes it."""
        limited = whole(self.condition, name)
        if limited is not None:
            return Builder(self.graph, self.node.name).constant(limited)
        bound = outer.get(name)
        return number(self.graph, bound.initial) if bound and self._is_whole(bound) else None

    def _is_whole(self, variable: Variable) -> bool:
        from onnx import TensorProto

        kinds = (TensorProto.INT32, TensorProto.INT64)
        return self.is_fixed(variable) and self.graph.get_dtype(number(self.graph, variable.initial)) in kinds

    def steps(self, b: Builder) -> str | None:
        """How many steps run (int64[]), where that is known before the first; below 0 where none does."""
        return self.most(b) if self.bounds else None

    def most(self, b: Builder) -> str | None:
        """How many steps run at most, where something of what the loop asks says it; below 0 where none does."""
        counts = {self._steps_to(b, *bound): None for bound in dict.fromkeys(self._asked) if bound is not None}
        return (next(iter(counts)) if len(counts) == 1 else b.call("Min", *counts)) if counts else None

    def _steps_to(self, b: Builder, counter: Variable, bound: str, more: int) -> str:
        """(bound - start) / step, rounded up."""
        count, step = self._limits.setdefault(bound, b.int64(bound)), abs(counter.step)
        if counter.start is None or counter.step < 0:
            ends = count, b.int64(counter.initial)
            count = b.call("Sub", *(ends if counter.step > 0 else reversed(ends)))
        else:
            more -= counter.start
        if more + step != 1:
            count = b.call("Add", count, b.constant(more + step - 1))
        return count if step == 1 else b.call("Div", count, b.constant(step))

    @cached_property
    def _limits(self) -> dict[str, str]:
        return {}

    def fills(self, length: str) -> bool:
        """Whether exactly as many steps run as a number says. Of steps, below 0 is as many as 0."""
        wanted = number(self.graph, length)
        node = self.graph.get_node_by_output(wanted)
        if node is not None and node.type == "Max" and whole(self.graph, node.input[1]) == 0:
            wanted = number(self.graph, node.input[0])
        places = whole(self.graph, wanted)
        return bool(self.bounds) and all(
            (counter.start, counter.step, more) == (0, 1, 0)
            and (bound == wanted or (places is not None and places == whole(self.graph, bound)))
            for counter, bound, more in self.bounds or ()
        )
