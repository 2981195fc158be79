"""Loop and Scan. Few steps of a known number are written one after the other, and else PyTorch's while_loop keeps them,
also through torch.export. There a state has one shape and dtype from step to step, and what the steps make is written
into a tensor of as many rows as there are steps at most: so that number must be known before the first, and the size of
what a step makes follow from sizes around the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....onnx_graph.graph import Graph, Node, tensor_array
from ....onnx_graph.semantics.loop_signature import (
    UNKNOWN_LIST,
    UNKNOWN_LIST_FIX,
    LoopArguments,
    ends_of,
    loop_arguments,
    scan_of,
    without_lists,
)
from ...common.tensor_sequence import GrownSequence, TensorSequence
from ...inner_graphs import Function, Inside, placed, same_size, truth
from ...operator_context import Op
from ...statements import tupled
from ...values import Part, Value, atom, known

if TYPE_CHECKING:
    import torch

_MOST_UNROLLED = 16
_MOST_LISTED = 256  # where there is no other way
_FAR = 2**31 - 1  # a trip count that stands for none


@dataclass(frozen=True)
class _Steps:
    """A loop that is to be written: how many steps there are, the states, and the function of one."""

    op: Op
    count: Part | None  # None: as many as the condition says
    counting: str  # the same as code that a loop may ask
    states: Sequence[Value]
    asks: Value | None = None  # whether there is a first one; each says whether there is another

    def written(self, step: Function) -> tuple[list[Value], list[Value]]:
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
        held, room = tupled([*map(str, self.states)]), tupled(blanks)
        code = f"{helper}({step.block.name}, {first}{self.counting}, {held}, {room})"
        rows = [page.run(each) for each in blanks]
        rows = [page.unsure(each, [False, *[True] * (each.dim() - 1)]) for each in rows] if asked else rows
        values = placed(op, code, [*after, *rows])
        return values[: len(self.states)], values[len(self.states) :]

    def _check_states(self, after: Sequence[torch.Tensor]) -> None:
        for at, (state, trial) in enumerate(zip(self.states, after, strict=True)):
            before: Any = self.op.page.run(f"{state}")
            same = len(before.shape) == trial.dim() and all(map(same_size, before.shape, trial.shape))
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
        return f"torch.zeros({tupled([str(self.count), *sizes])}, dtype={made.dtype}{self.op.page.device})"

    def _named(self, size: Any) -> str:
        found = self.op.page.size_code(size)
        if found is None:
            self.op.refuse(
                "what a step makes has a size that shows only inside of it", fix="give it a size that an input has"
            )
        return found


def _worded(trial: torch.Tensor) -> str:
    return f"{str(trial.dtype).removeprefix('torch.')}[{', '.join(map(str, trial.shape))}]"


@dataclass(frozen=True)
class _Turns:
    """How often a loop runs: as often as its trip count says (None: it has none), where that is known `most` times, and
    for as long as the condition holds where it is asked."""

    trips: Value | None
    most: int | None
    asked: Value | None

    @property
    def count(self) -> int | None:
        """How many steps there are, where that is known."""
        return self.most if self.asked is None else None


def _turns(loop: LoopArguments[Value]) -> _Turns:
    first = None if loop.condition is None else truth(loop.condition)
    if first is False or loop.most == 0:
        return _Turns(loop.trips, 0, None)
    return _Turns(loop.trips, loop.most, None if first and _goes_on(loop.body) else loop.condition)


def loop(op: Op, inside: Inside) -> Sequence[Value]:
    """Its body, as often as the trip count says and for as long as the condition holds."""
    arguments = loop_arguments(op)
    states, body, turns = arguments.states, arguments.body, _turns(arguments)
    listing = any(isinstance(each, TensorSequence) for each in states)
    makes = len(body.outputs) > 1 + len(states)
    few = turns.count is not None and turns.count <= (_MOST_LISTED if listing else _MOST_UNROLLED)
    if few and (turns.count or not makes):
        return _unrolled_loop(inside, body, turns.count or 0, states)
    return (_growing_loop if listing else _repeated_loop)(inside, body, turns, states)


def _growing_loop(inside: Inside, body: Graph, turns: _Turns, states: Sequence[Value]) -> list[Value]:
    """A loop that appends a tensor to an empty sequence at every step: the tensors are a scan output."""
    op = inside.op
    places = [at for at, each in enumerate(states) if isinstance(each, TensorSequence)]
    lists = [each for each in states if isinstance(each, TensorSequence)]
    plain = without_lists(body, len(states), places) if all(each.is_empty for each in lists) else None
    if plain is None:
        op.refuse(UNKNOWN_LIST, fix=UNKNOWN_LIST_FIX)
    others = [at for at in range(len(states)) if at not in places]
    made = _repeated_loop(inside, plain, turns, [states[at] for at in others])
    first = len(made) - len(places)
    if any(each.dtype != before.dtype for each, before in zip(made[first:], lists, strict=True)):
        op.refuse("it appends tensors of another dtype than its sequence has", fix="cast them in the model")
    after = dict(zip(others, made, strict=False)) | dict(zip(places, map(GrownSequence, made[first:]), strict=True))
    return [*(after[at] for at in range(len(states))), *made[len(others) : first]]


def _repeated_loop(inside: Inside, body: Graph, turns: _Turns, states: Sequence[Value]) -> list[Value]:
    op = inside.op
    fixed = {at: state for at, state in enumerate(states) if _is_handed_on(body, 1 + at, body.inputs[2 + at])}
    moving = [at for at in range(len(states)) if at not in fixed]
    place, *inner = _arguments(op, [body.inputs[2 + at] for at in moving], [states[at] for at in moving])
    given = dict(zip(moving, inner, strict=True)) | fixed
    ends = [
        *([] if turns.asked is None else [0]),
        *(1 + at for at in moving),
        *range(1 + len(states), len(body.outputs)),
    ]

    def write(within: Inside) -> list[Value]:
        goes_on = known(op.page, np.array(True))  # it would not run else
        made = within.here(body, [place, goes_on, *(given[at] for at in range(len(states)))])
        return [made[at] for at in ends]

    count, counting = _limit(op, turns)
    steps = _Steps(op, count, counting, [states[at] for at in moving], turns.asked)
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
        array = tensor_array(node.attributes["value"].t)
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


def _limit(op: Op, turns: _Turns) -> tuple[Part | None, str]:
    """How many steps there are at most: as a size, where there is such a number, and as code that a loop may ask."""
    trips, most = turns.trips, turns.most
    if most is not None or trips is None:
        return (None, str(2**63 - 1)) if most is None or most >= _FAR else (most, str(most))
    (part,) = op.sizes(0, "trip count")
    count = op.page.combine("max", part, 0)
    if trips.parts is not None:
        return count, str(count)
    return count, f"{trips}.reshape(())"  # of a number that is computed a loop may ask the tensor alone


def _unrolled_loop(inside: Inside, body: Graph, count: int, states: Sequence[Value]) -> list[Value]:
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
    return op.let(f"torch.stack({tupled(codes)})")


def scan(op: Op, inside: Inside) -> Sequence[Value]:
    """Its body once for each place along an axis of the scanned inputs; what it makes lies along an axis again."""
    if op.node.version < 9:
        op.refuse("the Scan of opset 8 has lengths and a batch of its own", fix="export the model at opset 9 or later")
    body, found = op.graph("body"), scan_of(op)
    first, axis, _ = found.scanned[0]
    count = first.size(axis) if found.steps is None else found.steps
    if isinstance(count, int) and 0 < count <= _MOST_UNROLLED:
        final, made = _unrolled_scan(inside, body, count, found.states, found.scanned)
    else:
        final, made = _repeated_scan(inside, body, count, found.states, found.scanned)
    return [*final, *_laid_out(op, made)]


Scanned = tuple[Value, int, bool]  # a scanned input, its axis, and whether it runs backwards
Made = tuple[Sequence[Value], list[Value]]  # the states at the end, and what was made, stacked along axis 0


def _unrolled_scan(
    inside: Inside, body: Graph, count: int, states: Sequence[Value], scanned: Sequence[Scanned]
) -> Made:
    op, made = inside.op, []
    for at in range(count):
        parts = [op.let(f"{value}.select({axis}, {count - 1 - at if back else at})") for value, axis, back in scanned]
        answers = inside.here(body, [*states, *parts])
        states = answers[: len(states)]
        made.append(answers[len(states) :])
    return states, [_stacked(op, [f"{each}" for each in parts]) for parts in zip(*made, strict=True)]


def _repeated_scan(
    inside: Inside, body: Graph, count: Part, states: Sequence[Value], scanned: Sequence[Scanned]
) -> Made:
    op = inside.op
    place, *inner = _arguments(op, body.inputs[: len(states)], states)

    def part(value: Value, axis: int, back: bool) -> Value:
        at = f"({atom(count)} - 1 - {place})" if back else f"{place}"
        return op.let(f"{value}.index_select({axis}, {at}.reshape(1)).squeeze({axis})")

    def write(within: Inside) -> list[Value]:
        return within.here(body, [*inner, *(part(*each) for each in scanned)])

    return _Steps(op, count, str(count), states).written(inside.function("step", [place, *inner], write))


def _laid_out(op: Op, made: Sequence[Value]) -> list[Value]:
    """What was stacked along axis 0, along the axis and in the direction that the node asks for."""
    ends = ends_of(op, "output", made)
    turned = [op.let(f"{each}.flip(0)") if back else each for each, back in zip(made, ends.backwards, strict=True)]
    return [
        op.let(f"{each}.movedim(0, {axis})") if axis else each for each, axis in zip(turned, ends.axes, strict=True)
    ]
