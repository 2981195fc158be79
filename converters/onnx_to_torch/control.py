"""If, Loop and Scan: graphs inside a node become functions inside of `forward`, which see the names around them.

What is known while writing needs none: a condition that is known is one branch, and few steps of a known number are
written one after the other. Else torch.cond and while_loop keep both ways, also through torch.export. There a state has
one shape and dtype from step to step, and what the steps make is written into a tensor of as many rows as there are
steps at most: so that number must be known before the first, and the size of what a step makes follow from sizes
around the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..onnx_graph.graph import Graph, Node
from .reader import Op
from .statements import Block
from .values import Part, Value, atom, computed, known

if TYPE_CHECKING:
    import torch

    from .page import Page

Scope = dict[str, Value]
Run = Callable[[Graph, Sequence[Value], Scope], list[Value]]
_MOST_UNROLLED = 16
_FAR = 2**31 - 1  # a trip count that stands for none


def control(op: Op, run: Run, scope: Scope) -> Sequence[Value | None]:
    """The answers of a node with graphs inside. `run` writes a graph; `scope`: the names around the node."""
    return _WRITTEN[op.node.op_type](op, _Inside(op, run, scope))


@dataclass(frozen=True)
class _Function:
    """A graph as a function: its text, and what it makes."""

    block: Block
    trials: list[torch.Tensor]


@dataclass(frozen=True)
class _Inside:
    """Writes graphs that see the names around a node."""

    op: Op
    run: Run
    scope: Scope

    def here(self, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
        """What a graph makes, as statements where the node is."""
        return self.run(graph, inputs, self.scope)

    def function(
        self, name: str, arguments: Sequence[Value], write: Callable[[_Inside], Sequence[Value]], result: str = "{}"
    ) -> _Function:
        """A function of these arguments, that gives what `write` makes in it, each written as `result`."""
        page = self.op.page
        called = page.names.fresh(f"{name}_of_{self.op.node.name or self.op.node.op_type}", name)
        # What is made a tensor in here has no name outside.
        inner = _Inside(self.op, self.run, {at: copy(value) for at, value in self.scope.items()})
        with _statements(page) as lines:
            made = write(inner)
            codes = [result.format(value) for value in made]
        names = tuple(f"{argument}: Tensor" for argument in arguments)
        trials = [page.run(f"{value}") for value in made]
        return _Function(Block(called, names, tuple(lines), tuple(codes), page.origin), trials)


@contextmanager
def _statements(page: Page) -> Iterator[list[Any]]:
    """A list that takes the statements written meanwhile."""
    outer, page.lines = page.lines, []
    try:
        yield page.lines
    finally:
        page.lines = outer


def _if(op: Op, inside: _Inside) -> Sequence[Value]:
    """One of two graphs: torch.cond, where the condition is not known."""
    condition = op.value(0)
    then, otherwise = op.graph("then_branch"), op.graph("else_branch")
    chosen = _truth(condition)
    if chosen is not None:
        return inside.here(then if chosen else otherwise, [])
    asked = f"{condition}" if not condition.rank else f"{condition}.reshape(())"
    made = [
        inside.function(name, [], partial(_Inside.here, graph=graph, inputs=[]), "plain_copy({})")
        for name, graph in (("then", then), ("otherwise", otherwise))
    ]
    trials = [_either(op, at, *pair) for at, pair in enumerate(zip(*(each.trials for each in made), strict=True))]
    op.page.lines += [each.block for each in made]
    op.page.helpers.add("plain_copy")
    return _placed(op, f"torch.cond({asked}, {made[0].block.name}, {made[1].block.name})", trials)


def _truth(condition: Value) -> bool | None:
    """The condition, where it is known."""
    if condition.array is not None:
        return bool(condition.array.reshape(()))
    part = None if condition.parts is None else condition.parts.reshape(-1)[0]
    return part if isinstance(part, bool) else None


def _either(op: Op, at: int, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """What is known of a tensor that is one of two."""
    if (one.dtype, one.dim()) != (other.dtype, other.dim()):
        op.refuse(
            f"its output {at} is {one.dtype} of {one.dim()} axes in one branch and {other.dtype} of {other.dim()} axes "
            "in the other",
            fix="give both branches the same rank and dtype",
        )
    return op.page.unsure(one, list(map(_same, one.shape, other.shape)))


def _same(a: Any, b: Any) -> bool:
    """Whether two sizes are one, without asking which sizes they are."""
    return bool(_expression(a) == _expression(b))


def _expression(size: Any) -> Any:
    import sympy  # type: ignore[import-untyped]

    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def _placed(op: Op, code: str, trials: Sequence[torch.Tensor]) -> list[Value]:
    """Variables for what a call makes, of which the trial is known."""
    page = op.page
    targets = [page.names.fresh(op.node.outputs[at] if op.wants(at) else "_unused") for at in range(len(trials))]
    page.scope.update(zip(targets, trials, strict=True))
    page.write(targets, f"({code})" if len(targets) > 1 else f"{code}[0]")
    return [computed(page, target, trial) for target, trial in zip(targets, trials, strict=True)]


@dataclass(frozen=True)
class _Steps:
    """A loop that is to be written: how many steps there are, the states, and the function of one."""

    op: Op
    count: Part | None  # None: as many as the condition says
    counting: str  # the same as code that a loop may ask
    states: Sequence[Value]
    asks: Value | None = None  # whether there is a first one; each says whether there is another

    def written(self, step: _Function) -> tuple[list[Value], list[Value]]:
        """The last states, and what the steps made along a first axis."""
        op, page = self.op, self.op.page
        asked = int(self.asks is not None)
        after, made = step.trials[asked : asked + len(self.states)], step.trials[asked + len(self.states) :]
        self._check_states(after)
        blanks = [self._blank(each) for each in made]
        page.lines.append(step.block)
        helper = "asking_loop" if asked else "counted_loop"
        page.helpers.add(helper)
        first = f"{self.asks}, " if asked else ""
        held, room = ("".join(f"{each}, " for each in side) for side in (self.states, blanks))
        code = f"{helper}({step.block.name}, {first}{self.counting}, ({held}), ({room}))"
        rows = [page.run(each) for each in blanks]
        rows = [page.unsure(each, [False, *[True] * (each.dim() - 1)]) for each in rows] if asked else rows
        values = _placed(op, code, [*after, *rows])
        return values[: len(self.states)], values[len(self.states) :]

    def _check_states(self, after: Sequence[torch.Tensor]) -> None:
        for at, (state, trial) in enumerate(zip(self.states, after, strict=True)):
            before: Any = self.op.page.run(f"{state}")
            same = len(before.shape) == trial.dim() and all(map(_same, before.shape, trial.shape))
            if before.dtype != trial.dtype or not same:
                self.op.refuse(
                    f"what it carries at place {at} is {_worded(before)} before a step and {_worded(trial)} after it, "
                    "and PyTorch's loop keeps shapes and dtypes",
                    fix="collect what grows as a scan output, or make the number of steps a constant",
                )

    def _blank(self, made: torch.Tensor) -> str:
        """A tensor with room for what each step makes."""
        if self.count is None:
            self.op.refuse("how many steps it has at most is not known before the first", fix="give it a trip count")
        sizes = [str(size) if isinstance(size, int) else self._named(size) for size in made.shape]
        return f"torch.zeros(({', '.join([str(self.count), *sizes])},), dtype={made.dtype})"

    def _named(self, size: Any) -> str:
        found = self.op.page.size_code(size)
        if found is None:
            self.op.refuse(
                "what a step makes has a size that shows only inside of it", fix="give it a size that an input has"
            )
        return found


def _worded(trial: torch.Tensor) -> str:
    return f"{str(trial.dtype).removeprefix('torch.')}[{', '.join(map(str, trial.shape))}]"


def _loop(op: Op, inside: _Inside) -> Sequence[Value]:
    """Its body, as often as the trip count says and for as long as the condition holds. The body's condition counts
    only where the node has one: so words it the specification."""
    trips, condition, states = op.optional(0), op.optional(1), op.values(2)
    body = op.graph("body")
    if trips is None and condition is None:
        op.refuse("it has neither a trip count nor a condition, and so never ends", fix="give it one of them")
    first = None if condition is None else _truth(condition)
    asks = condition is not None and not (first and _goes_on(body))
    most = None if trips is None or trips.array is None else max(int(trips.array.reshape(())), 0)
    if first is False or most == 0:
        most, asks = 0, False
    makes = len(body.outputs) > 1 + len(states)
    if most is not None and most <= _MOST_UNROLLED and not asks and (most or not makes):
        return _unrolled_loop(inside, body, most, states)
    fixed = {at: state for at, state in enumerate(states) if _is_handed_on(body, 1 + at, body.inputs[2 + at])}
    moving = [at for at in range(len(states)) if at not in fixed]
    place, *inner = _arguments(op, [body.inputs[2 + at] for at in moving], [states[at] for at in moving])
    given = dict(zip(moving, inner, strict=True)) | fixed
    ends = [*([0] if asks else []), *(1 + at for at in moving), *range(1 + len(states), len(body.outputs))]

    def write(within: _Inside) -> list[Value]:
        goes_on = known(op.page, np.array(True))  # it would not run else
        made = within.here(body, [place, goes_on, *(given[at] for at in range(len(states)))])
        return [made[at] for at in ends]

    count, counting = _limit(op, trips, most)
    steps = _Steps(op, count, counting, [states[at] for at in moving], condition if asks else None)
    last, made = steps.written(inside.function("step", [place, *inner], write))
    after = dict(zip(moving, last, strict=True)) | fixed
    return [*(after[at] for at in range(len(states))), *made]


def _arguments(op: Op, names: Sequence[str], states: Sequence[Value]) -> list[Value]:
    """The arguments of a step: how many were before it, and the states."""
    page = op.page
    first = page.variable("at", page.run("torch.zeros((), dtype=torch.int64)"))
    return [first, *(page.variable(name, page.run(f"{each}")) for name, each in zip(names, states, strict=True))]


def _goes_on(body: Graph) -> bool:
    """Whether a body never ends its loop."""
    name, node = _origin(body, body.outputs[0])
    if name == body.inputs[1]:
        return True
    array = body.constants.get(name)
    if array is None and node is not None and node.op_type == "Constant" and "value" in node.attributes:
        from onnx import numpy_helper

        array = numpy_helper.to_array(node.attributes["value"].t)
    return array is not None and bool(np.all(array))


def _is_handed_on(body: Graph, output: int, name: str) -> bool:
    """Whether an output of a body is one of its inputs as it is."""
    return _origin(body, body.outputs[output])[0] == name


def _origin(body: Graph, name: str) -> tuple[str, Node | None]:
    """What a value was called before it was only handed on, and the node of the body that makes it, if one does."""
    made = {each: node for node in body.nodes for each in node.outputs}
    while name in made and made[name].op_type == "Identity":
        name = made[name].inputs[0]
    return name, made.get(name)


def _limit(op: Op, trips: Value | None, most: int | None) -> tuple[Part | None, str]:
    """How many steps there are at most: as a size, where there is such a number, and as code that a loop may ask."""
    if most is not None or trips is None:
        return (None, str(2**63 - 1)) if most is None or most >= _FAR else (most, str(most))
    (part,) = op.sizes(0, "trip count")
    count = op.page.combine("max", part, 0)
    if trips.parts is not None:
        return count, str(count)
    return count, f"{trips}.reshape(())"  # of a number that is computed a loop may ask the tensor alone


def _unrolled_loop(inside: _Inside, body: Graph, count: int, states: Sequence[Value]) -> list[Value]:
    op = inside.op
    carried, going = len(states), known(op.page, np.array(True))
    made: list[list[Value]] = []
    for at in range(count):
        _, *answers = inside.here(body, [known(op.page, np.array(at, np.int64)), going, *states])
        states = answers[:carried]
        made.append(answers[carried:])
    stacks = [_stacked(op, [f"{each}" for each in parts]) for parts in zip(*made, strict=True)]
    return [*states, *stacks]


def _stacked(op: Op, codes: Sequence[str]) -> Value:
    return op.let(f"torch.stack(({', '.join(codes)},))")


def _scan(op: Op, inside: _Inside) -> Sequence[Value]:
    """Its body once for each place along an axis of the scanned inputs; what it makes lies along an axis again."""
    if op.node.version < 9:
        op.refuse("the Scan of opset 8 has lengths and a batch of its own", fix="export the model at opset 9 or later")
    body, number, given = op.graph("body"), op.integer("num_scan_inputs"), op.values()
    if not 0 < number <= len(given):
        op.refuse(f"it scans {number} of {len(given)} inputs", fix="check the model with onnx.checker")
    states, scanned = given[:-number], given[-number:]
    axes, backwards = _ends(op, "input", [each.rank for each in scanned])
    along = list(zip(scanned, axes, backwards, strict=True))
    known_sizes = {each.shape[axis] for each, axis, _ in along} - {None}
    if len(known_sizes) > 1:
        op.refuse("its scanned inputs differ in their number of steps", fix="check the model with onnx.checker")
    count = scanned[0].size(axes[0])
    if isinstance(count, int) and 0 < count <= _MOST_UNROLLED:
        final, made = _unrolled_scan(inside, body, count, states, along)
    else:
        final, made = _repeated_scan(inside, body, count, states, along)
    return [*final, *_laid_out(op, made)]


Scanned = tuple[Value, int, bool]  # a scanned input, its axis, and whether it runs backwards
Made = tuple[Sequence[Value], list[Value]]  # the states at the end, and what was made, stacked along axis 0


def _unrolled_scan(
    inside: _Inside, body: Graph, count: int, states: Sequence[Value], scanned: Sequence[Scanned]
) -> Made:
    op, made = inside.op, []
    for at in range(count):
        parts = [op.let(f"{value}.select({axis}, {count - 1 - at if back else at})") for value, axis, back in scanned]
        answers = inside.here(body, [*states, *parts])
        states = answers[: len(states)]
        made.append(answers[len(states) :])
    return states, [_stacked(op, [f"{each}" for each in parts]) for parts in zip(*made, strict=True)]


def _repeated_scan(
    inside: _Inside, body: Graph, count: Part, states: Sequence[Value], scanned: Sequence[Scanned]
) -> Made:
    op = inside.op
    place, *inner = _arguments(op, body.inputs[: len(states)], states)

    def part(value: Value, axis: int, back: bool) -> Value:
        at = f"({atom(count)} - 1 - {place})" if back else f"{place}"
        return op.let(f"{value}.index_select({axis}, {at}.reshape(1)).squeeze({axis})")

    def write(within: _Inside) -> list[Value]:
        return within.here(body, [*inner, *(part(*each) for each in scanned)])

    return _Steps(op, count, str(count), states).written(inside.function("step", [place, *inner], write))


def _ends(op: Op, side: str, ranks: Sequence[int]) -> tuple[list[int], list[bool]]:
    """The axis of each scanned input or output along the steps, and whether it runs backwards."""
    axes, directions = (op.ints(f"scan_{side}_{what}", [0] * len(ranks)) for what in ("axes", "directions"))
    if len(axes) != len(ranks) or len(directions) != len(ranks) or not {*directions} <= {0, 1}:
        op.refuse(f"its scan_{side}_axes or scan_{side}_directions do not fit {len(ranks)} tensors")
    return [op.placed(axis, rank) for axis, rank in zip(axes, ranks, strict=True)], [each == 1 for each in directions]


def _laid_out(op: Op, made: Sequence[Value]) -> list[Value]:
    """What was stacked along axis 0, along the axis and in the direction that the node asks for."""
    axes, backwards = _ends(op, "output", [each.rank for each in made])
    turned = [op.let(f"{each}.flip(0)") if back else each for each, back in zip(made, backwards, strict=True)]
    return [op.let(f"{each}.movedim(0, {axis})") if axis else each for each, axis in zip(turned, axes, strict=True)]


_WRITTEN: Mapping[str, Callable[[Op, _Inside], Sequence[Value]]] = {"If": _if, "Loop": _loop, "Scan": _scan}
