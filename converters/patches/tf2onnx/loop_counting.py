"""Reads what tf2onnx's graphs say of a loop: its variables, which of them count, and how often it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .graph_writer import TfGraphWriter
from .tf2onnx_graphs import Dtype, TfGraph, TfNode, constant_integer, constant_of, copy_source, integer_source

# Comparisons: which input is the lower side and which the higher one, and 1 where equal sides go on.
_COMPARISONS = {"Less": (0, 1, 0), "LessOrEqual": (0, 1, 1), "Greater": (1, 0, 0), "GreaterOrEqual": (1, 0, 1)}


@dataclass(frozen=True)
class LoopVariable:
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


class _Bound(NamedTuple):
    """A counter, the name outside of the number it runs to, and how many more it may come to."""

    counter: LoopVariable
    limit: str
    extra: int


class LoopCounting:
    """The variables of a loop, and how often it runs. `condition` and `body`: its functions."""

    def __init__(self, graph: TfGraph, node: TfNode, condition: TfGraph, body: TfGraph) -> None:
        self.graph, self.node, self.condition, self.body = graph, node, condition, body
        names = list(zip(node.input, body.input_names, body.outputs, node.output, strict=True))
        self._initial = {before: initial for initial, before, after, _ in names if copy_source(body, after) == before}
        self.variables = [self._variable(*row) for row in names]
        self.by_name = {variable.before: variable for variable in self.variables}
        self._limits: dict[str, str] = {}

    def _variable(self, initial: str, before: str, after: str, final: str) -> LoopVariable:
        step = self._step(before, self.body.get_node_by_output(integer_source(self.body, after)))
        start = None if step is None else constant_integer(self.graph, initial)
        return LoopVariable(initial, before, after, final, start, step or 0)

    def _step(self, before: str, node: TfNode | None) -> int | None:
        """Return what a node adds to a variable, where that is always the same."""
        if node is None or node.type not in ("Add", "Sub"):
            return None
        added = [name for name in node.input if integer_source(self.body, name) != before]
        step = self._constant(added[0]) if len(added) == 1 else None
        if node.type == "Add" or step is None:
            return step
        return -step if added[0] == node.input[1] else None

    def is_fixed(self, variable: LoopVariable) -> bool:
        """Return whether every step hands a variable on as it is."""
        return variable.before in self._initial

    def _constant(self, name: str) -> int | None:
        """Return the integer that a tensor of the body always is, or None."""
        initial = self._initial.get(integer_source(self.body, name))
        return constant_integer(self.body, name) if initial is None else constant_integer(self.graph, initial)

    def growth(self, name: str) -> int | None:
        """Return what a number of the body grows by from step to step, or None where that is not always the same."""
        body, name = self.body, integer_source(self.body, name)
        if name in self.by_name:
            variable = self.by_name[name]
            return 0 if self.is_fixed(variable) else variable.step or None
        node = body.get_node_by_output(name)
        if node is None or node.is_const():
            return None if node is None else 0
        if node.type not in ("Add", "Sub", "Mul"):
            return None
        left, right = (self.growth(term) for term in node.input)
        return None if left is None or right is None else self._combined_growth(node, left, right)

    def _combined_growth(self, node: TfNode, left: int, right: int) -> int | None:
        if node.type == "Mul":
            left_factor, right_factor = (self._constant(factor) for factor in node.input)
            if right_factor is not None:
                return left * right_factor
            return None if left_factor is None else right * left_factor
        return left + right if node.type == "Add" else left - right

    @cached_property
    def bounds(self) -> list[_Bound] | None:
        """The bounds of the loop where its condition asks for nothing else; else None.

        A bound is a comparison of a counter with a number that no step changes.
        """
        return [bound for bound in self._tests if bound is not None] if all(self._tests) else None

    @cached_property
    def _tests(self) -> list[_Bound | None]:
        """The tests of the condition: a bound each, or None for anything else."""
        return [self._bound(node) for node in self._conjuncts(self.condition.outputs[0])]

    def _conjuncts(self, name: str) -> Iterator[TfNode | None]:
        node = self.condition.get_node_by_output(integer_source(self.condition, name))
        if node is not None and node.type == "And":
            for operand in node.input:
                yield from self._conjuncts(operand)
        else:
            value = constant_of(node)
            if value is None or not value.all():
                yield node

    def _bound(self, node: TfNode | None) -> _Bound | None:
        if node is None or node.type not in _COMPARISONS:
            return None
        low, high, extra = _COMPARISONS[node.type]
        inputs = [integer_source(self.condition, name) for name in node.input]
        outer = dict(zip(self.condition.input_names, self.variables, strict=True))
        for counter_at, limit_at, sign in ((low, high, 1), (high, low, -1)):
            counter = outer.get(inputs[counter_at])
            if counter is not None and counter.step * sign > 0:
                limit = self._limit(inputs[limit_at], outer)
                return None if limit is None else _Bound(counter, limit, extra)
        return None

    def _limit(self, name: str, outer: Mapping[str, LoopVariable]) -> str | None:
        """Return the name outside of a number of the condition, where no step changes it."""
        value = constant_integer(self.condition, name)
        if value is not None:
            return TfGraphWriter(self.graph, self.node.name).constant(value)
        variable = outer.get(name)
        return integer_source(self.graph, variable.initial) if variable and self._is_fixed_integer(variable) else None

    def _is_fixed_integer(self, variable: LoopVariable) -> bool:
        dtype = self.graph.get_dtype(integer_source(self.graph, variable.initial))
        return self.is_fixed(variable) and dtype in (Dtype.INT32, Dtype.INT64)

    def write_steps(self, w: TfGraphWriter) -> str | None:
        """Write how many steps run (int64[]), where that is known before the first; below 0 where none does."""
        return self.write_most_steps(w) if self.bounds else None

    def write_most_steps(self, w: TfGraphWriter) -> str | None:
        """Write how many steps run at most, where one of the tests says it; below 0 where none does."""
        counts = {self._steps_to(w, bound): None for bound in dict.fromkeys(self._tests) if bound is not None}
        return (next(iter(counts)) if len(counts) == 1 else w.call("Min", *counts)) if counts else None

    def _steps_to(self, w: TfGraphWriter, bound: _Bound) -> str:
        """Write (limit - start) / step, rounded up."""
        counter, limit, extra = bound
        count, step = self._limits.setdefault(limit, w.int64(limit)), abs(counter.step)
        if counter.start is None or counter.step < 0:
            ends = count, w.int64(counter.initial)
            count = w.call("Sub", *(ends if counter.step > 0 else reversed(ends)))
        else:
            extra -= counter.start
        if extra + step != 1:
            count = w.call("Add", count, w.constant(extra + step - 1))
        return count if step == 1 else w.call("Div", count, w.constant(step))

    def runs_exactly(self, length: str) -> bool:
        """Return whether exactly as many steps run as a number says. Of steps, below 0 is as many as 0."""
        name = integer_source(self.graph, length)
        node = self.graph.get_node_by_output(name)
        if node is not None and node.type == "Max" and constant_integer(self.graph, node.input[1]) == 0:
            name = integer_source(self.graph, node.input[0])
        value = constant_integer(self.graph, name)
        return bool(self.bounds) and all(
            (counter.start, counter.step, extra) == (0, 1, 0)
            and (limit == name or (value is not None and value == constant_integer(self.graph, limit)))
            for counter, limit, extra in self.bounds or ()
        )
