"""Loop and Scan.

Few steps of a known number are written one after the other; else PyTorch's while_loop keeps them, also through
torch.export. Its states keep shape and dtype. Outputs of the steps are written into a tensor with as many rows as
there are steps at most: that number must be known before the first step, and the sizes of a row must follow from
sizes around the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from ...common.tensor_sequence import ExpressionSequence, LoopSequence
from ...inner_graphs import InnerFunction, InnerGraphWriter, assign_outputs, known_truth, same_size
from ...lazy_torch import torch
from ...operator_context import CodegenContext
from ...statements import tupled
from ...values import Expression, SizeTerm, atom, known

_MOST_UNROLLED = 16
_MOST_LISTED = 256  # steps, where sequences leave no other way
_FAR = 2**31 - 1  # a trip count that stands for none


@dataclass(frozen=True)
class _LoopCode:
    """A loop to be written: how many steps there are, the states, and the function of one step."""

    op: CodegenContext
    count: SizeTerm | None  # None: as many as the condition says
    counting: str  # the same as code for the condition of a loop
    states: Sequence[Expression]
    asks: Expression | None = None  # whether there is a first step; each step says whether there is another

    def written(self, step: InnerFunction) -> tuple[list[Expression], list[Expression]]:
        """Write the loop, and return the last states and the outputs stacked along a first axis."""
        op, writer = self.op, self.op.writer
        asks = int(self.asks is not None)
        after, rows_made = step.trials[asks : asks + len(self.states)], step.trials[asks + len(self.states) :]
        self._check_states(after)
        blanks = [self._blank(blank) for blank in rows_made]
        writer.lines.append(step.block)
        helper = "asking_loop" if asks else "counted_loop"
        writer.helpers.add(helper)
        first = f"{self.asks}, " if asks else ""
        held, room = tupled([*map(str, self.states)]), tupled(blanks)
        code = f"{helper}({step.block.name}, {first}{self.counting}, {held}, {room})"
        rows = [writer.run(blank) for blank in blanks]
        rows = [writer.unsure(blank, [False, *[True] * (blank.dim() - 1)]) for blank in rows] if asks else rows
        values = assign_outputs(op, code, [*after, *rows])
        return values[: len(self.states)], values[len(self.states) :]

    def _check_states(self, after: Sequence[torch.Tensor]) -> None:
        for at, (state, trial) in enumerate(zip(self.states, after, strict=True)):
            before: Any = self.op.writer.run(f"{state}")
            same = len(before.shape) == trial.dim() and all(map(same_size, before.shape, trial.shape))
            if before.dtype != trial.dtype or not same:
                self.op.refuse(
                    f"what it carries at place {at} is {_worded(before)} before a step and {_worded(trial)} after it, "
                    "and PyTorch's loop keeps shapes and dtypes",
                    fix="collect what grows as a scan output, or make the number of steps a constant",
                )

    def _blank(self, row: torch.Tensor) -> str:
        """Return the code of a tensor with room for an output of every step."""
        if self.count is None:
            self.op.refuse("how many steps it has at most is not known before the first", fix="give it a trip count")
        sizes = [str(size) if isinstance(size, int) else self._named(size) for size in row.shape]
        return f"torch.zeros({tupled([str(self.count), *sizes])}, dtype={row.dtype}{self.op.writer.device})"

    def _named(self, size: Any) -> str:
        code = self.op.writer.size_code(size)
        if code is None:
            self.op.refuse(
                "what a step makes has a size that shows only inside of it", fix="give it a size that an input has"
            )
        return code


def _worded(trial: torch.Tensor) -> str:
    return f"{str(trial.dtype).removeprefix('torch.')}[{', '.join(map(str, trial.shape))}]"


@dataclass(frozen=True)
class _LoopLimits:
    """How often a loop runs: its trip count, that number if known, and the condition if it may end the loop."""

    trips: Expression | None
    most: int | None
    condition: Expression | None

    @property
    def count(self) -> int | None:
        """How many steps there are, where that is known."""
        return self.most if self.condition is None else None


def _loop_limits(loop: LoopArguments[Expression]) -> _LoopLimits:
    first = None if loop.condition is None else known_truth(loop.condition)
    if first is False or loop.most == 0:
        return _LoopLimits(loop.trips, 0, None)
    return _LoopLimits(loop.trips, loop.most, None if first and _never_ends(loop.body) else loop.condition)


def loop(op: CodegenContext, inside: InnerGraphWriter) -> Sequence[Expression]:
    """Write Loop: its body, as often as the trip count says and for as long as the condition holds."""
    arguments = loop_arguments(op)
    states, body, turns = arguments.states, arguments.body, _loop_limits(arguments)
    listing = any(isinstance(state, ExpressionSequence) for state in states)
    makes = len(body.outputs) > 1 + len(states)
    few = turns.count is not None and turns.count <= (_MOST_LISTED if listing else _MOST_UNROLLED)
    if few and (turns.count or not makes):
        return _unrolled_loop(inside, body, turns.count or 0, states)
    return (_growing_loop if listing else _repeated_loop)(inside, body, turns, states)


def _growing_loop(
    inside: InnerGraphWriter, body: Graph, turns: _LoopLimits, states: Sequence[Expression]
) -> list[Expression]:
    """Write a loop that appends a tensor to an empty sequence at every step: the tensors are a scan output."""
    op = inside.op
    places = [at for at, state in enumerate(states) if isinstance(state, ExpressionSequence)]
    lists = [state for state in states if isinstance(state, ExpressionSequence)]
    plain = without_lists(body, len(states), places) if all(state.is_empty for state in lists) else None
    if plain is None:
        op.refuse(UNKNOWN_LIST, fix=UNKNOWN_LIST_FIX)
    kept = [at for at in range(len(states)) if at not in places]
    outputs = _repeated_loop(inside, plain, turns, [states[at] for at in kept])
    first = len(outputs) - len(places)
    if any(state.dtype != before.dtype for state, before in zip(outputs[first:], lists, strict=True)):
        op.refuse("it appends tensors of another dtype than its sequence has", fix="cast them in the model")
    after = dict(zip(kept, outputs, strict=False)) | dict(zip(places, map(LoopSequence, outputs[first:]), strict=True))
    return [*(after[at] for at in range(len(states))), *outputs[len(kept) : first]]


def _repeated_loop(
    inside: InnerGraphWriter, body: Graph, turns: _LoopLimits, states: Sequence[Expression]
) -> list[Expression]:
    op = inside.op
    fixed = {at: state for at, state in enumerate(states) if _is_handed_on(body, 1 + at, body.inputs[2 + at])}
    moving = [at for at in range(len(states)) if at not in fixed]
    place, *inner = _arguments(op, [body.inputs[2 + at] for at in moving], [states[at] for at in moving])
    inputs = dict(zip(moving, inner, strict=True)) | fixed
    ends = [
        *([] if turns.condition is None else [0]),
        *(1 + at for at in moving),
        *range(1 + len(states), len(body.outputs)),
    ]

    def write(within: InnerGraphWriter) -> list[Expression]:
        goes_on = known(op.writer, np.array(True))  # a step runs only where the condition holds
        outputs = within.here(body, [place, goes_on, *(inputs[at] for at in range(len(states)))])
        return [outputs[at] for at in ends]

    count, counting = _limit_code(op, turns)
    steps = _LoopCode(op, count, counting, [states[at] for at in moving], turns.condition)
    last, outputs = steps.written(inside.function("step", [place, *inner], write))
    after = dict(zip(moving, last, strict=True)) | fixed
    return [*(after[at] for at in range(len(states))), *outputs]


def _arguments(op: CodegenContext, names: Sequence[str], states: Sequence[Expression]) -> list[Expression]:
    """Return the arguments of a step: how many steps were before it, and the states."""
    writer = op.writer
    first = writer.variable("at", writer.run("torch.zeros((), dtype=torch.int64)"))
    return [first, *(writer.variable(name, writer.run(f"{state}")) for name, state in zip(names, states, strict=True))]


def _never_ends(body: Graph) -> bool:
    """Return whether a body never ends its loop."""
    name, node = _origin(body, body.outputs[0])
    if name == body.inputs[1]:
        return True
    array = body.constants.get(name)
    if array is None and node is not None and node.op_type == "Constant" and "value" in node.attributes:
        array = tensor_array(node.attributes["value"].t)
    return array is not None and bool(np.all(array))


def _is_handed_on(body: Graph, output: int, name: str) -> bool:
    """Return whether an output of a body is one of its inputs, unchanged."""
    return _origin(body, body.outputs[output])[0] == name


def _origin(body: Graph, name: str) -> tuple[str, Node | None]:
    """Return the first name of a value that Identity nodes hand on, and the node of the body that makes it."""
    makers = {output: node for node in body.nodes for output in node.outputs}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].inputs[0]
    return name, makers.get(name)


def _limit_code(op: CodegenContext, turns: _LoopLimits) -> tuple[SizeTerm | None, str]:
    """Return how many steps there are at most: as a size where there is such a number, and as code for the loop."""
    trips, most = turns.trips, turns.most
    if most is not None or trips is None:
        return (None, str(2**63 - 1)) if most is None or most >= _FAR else (most, str(most))
    (part,) = op.sizes(0, "trip count")
    count = op.writer.combine("max", part, 0)
    if trips.parts is not None:
        return count, str(count)
    return count, f"{trips}.reshape(())"  # PyTorch's loop takes a computed count as a tensor only


def _unrolled_loop(inside: InnerGraphWriter, body: Graph, count: int, states: Sequence[Expression]) -> list[Expression]:
    op = inside.op
    carried, going = len(states), known(op.writer, np.array(True))
    rows: list[list[Expression]] = []
    for at in range(count):
        _, *answers = inside.here(body, [known(op.writer, np.array(at, np.int64)), going, *states])
        states = answers[:carried]
        rows.append(answers[carried:])
    stacks = [_stacked(op, [f"{part}" for part in parts]) for parts in zip(*rows, strict=True)]
    return [*states, *stacks]


def _stacked(op: CodegenContext, codes: Sequence[str]) -> Expression:
    return op.let(f"torch.stack({tupled(codes)})")


def scan(op: CodegenContext, inside: InnerGraphWriter) -> Sequence[Expression]:
    """Write Scan: its body once for each place along an axis of the scanned inputs."""
    if op.node.version < 9:
        op.refuse("the Scan of opset 8 has lengths and a batch of its own", fix="export the model at opset 9 or later")
    body, scanning = op.graph("body"), scan_of(op)
    first, axis, _ = scanning.scanned[0]
    count = first.size(axis) if scanning.steps is None else scanning.steps
    if isinstance(count, int) and 0 < count <= _MOST_UNROLLED:
        final, outputs = _unrolled_scan(inside, body, count, scanning.states, scanning.scanned)
    else:
        final, outputs = _repeated_scan(inside, body, count, scanning.states, scanning.scanned)
    return [*final, *_laid_out(op, outputs)]


ScannedInput = tuple[Expression, int, bool]  # a scanned input, its axis, and whether it runs backwards
LoopResults = tuple[
    Sequence[Expression], list[Expression]
]  # the states at the end, and what was made, stacked along axis 0


def _unrolled_scan(
    inside: InnerGraphWriter, body: Graph, count: int, states: Sequence[Expression], scanned: Sequence[ScannedInput]
) -> LoopResults:
    op, rows = inside.op, []
    for at in range(count):
        parts = [op.let(f"{value}.select({axis}, {count - 1 - at if back else at})") for value, axis, back in scanned]
        answers = inside.here(body, [*states, *parts])
        states = answers[: len(states)]
        rows.append(answers[len(states) :])
    return states, [_stacked(op, [f"{part}" for part in parts]) for parts in zip(*rows, strict=True)]


def _repeated_scan(
    inside: InnerGraphWriter,
    body: Graph,
    count: SizeTerm,
    states: Sequence[Expression],
    scanned: Sequence[ScannedInput],
) -> LoopResults:
    op = inside.op
    place, *inner = _arguments(op, body.inputs[: len(states)], states)

    def part(value: Expression, axis: int, back: bool) -> Expression:
        at = f"({atom(count)} - 1 - {place})" if back else f"{place}"
        return op.let(f"{value}.index_select({axis}, {at}.reshape(1)).squeeze({axis})")

    def write(within: InnerGraphWriter) -> list[Expression]:
        return within.here(body, [*inner, *(part(*source) for source in scanned)])

    return _LoopCode(op, count, str(count), states).written(inside.function("step", [place, *inner], write))


def _laid_out(op: CodegenContext, stacks: Sequence[Expression]) -> list[Expression]:
    """Move what was stacked along axis 0 to the axis and the direction that the node asks for."""
    ends = ends_of(op, "output", stacks)
    turned = [op.let(f"{stack}.flip(0)") if back else stack for stack, back in zip(stacks, ends.backwards, strict=True)]
    return [
        op.let(f"{stack}.movedim(0, {axis})") if axis else stack for stack, axis in zip(turned, ends.axes, strict=True)
    ]
