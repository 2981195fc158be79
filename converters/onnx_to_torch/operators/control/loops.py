"""Loop and Scan.

Few steps of a known number are written one after the other; else PyTorch's while_loop keeps them, also through
torch.export. Its states keep shape and dtype. Outputs of the steps are written into a tensor with as many rows as
there are steps at most: that number must be known before the first step, and the sizes of a row must follow from
sizes around the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....onnx_graph.graph import Graph, Node, tensor_array
from ....onnx_graph.semantics.loops_and_sequences import (
    UNKNOWN_LIST,
    UNKNOWN_LIST_FIX,
    LoopArguments,
    ScanArguments,
    ends_of,
    loop_arguments,
    scan_of,
    without_lists,
)
from ...inner_graphs import InnerFunction, InnerGraphWriter, assign_outputs, known_truth, same_size
from ...lazy_torch import torch
from ...values import Expression, ExpressionSequence, LoopSequence, SizeTerm, as_tuple, atom, known
from ...writers import CodegenContext

_MOST_UNROLLED = 16
_MOST_LISTED = 256  # steps, where sequences leave no other way
_FAR = 2**31 - 1  # a trip count that stands for none

LoopResults = tuple[Sequence[Expression], list[Expression]]  # the last states, and the outputs stacked along axis 0


def loop(op: CodegenContext, inside: InnerGraphWriter) -> Sequence[Expression]:
    """Write Loop: its body, as often as the trip count says and for as long as the condition holds."""
    arguments = _with_needed_condition(op, loop_arguments(op))
    states, body = arguments.states, arguments.body
    listing = any(isinstance(state, ExpressionSequence) for state in states)
    makes = len(body.outputs) > 1 + len(states)
    count = arguments.most if arguments.condition is None else None
    if count is not None and count <= (_MOST_LISTED if listing else _MOST_UNROLLED) and (count or not makes):
        going = op.known(np.array(True))

        def step(at: int, before: Sequence[Expression]) -> list[Expression]:
            return inside.here(body, [op.known(np.array(at, np.int64)), going, *before])[1:]

        final, outputs = _unrolled(op, count, states, step)
        return [*final, *outputs]
    return (_growing_loop if listing else _repeated_loop)(inside, arguments)


def _with_needed_condition(op: CodegenContext, loop: LoopArguments[Expression]) -> LoopArguments[Expression]:
    """Return a loop without a condition that never ends it, and without steps where there is not even the first."""
    first = None if loop.condition is None else known_truth(loop.condition)
    if first is False or loop.most == 0:
        return replace(loop, trips=op.known(np.array(0)), condition=None)
    return replace(loop, condition=None) if first and _never_ends(loop.body) else loop


def _unrolled(
    op: CodegenContext,
    count: int,
    states: Sequence[Expression],
    step: Callable[[int, Sequence[Expression]], Sequence[Expression]],
) -> LoopResults:
    """Write steps one after the other; `step` makes states and outputs of its number and the states before it."""
    carried, rows = len(states), []
    for at in range(count):
        answers = step(at, states)
        states = answers[:carried]
        rows.append(answers[carried:])
    return states, [op.let(f"torch.stack({as_tuple(parts)})") for parts in zip(*rows, strict=True)]


def _write_loop(
    op: CodegenContext,
    step: InnerFunction,
    limit: tuple[SizeTerm | None, str],
    states: Sequence[Expression],
    asks: Expression | None = None,
) -> LoopResults:
    """Write a loop of a function.

    `limit`: how many steps there are at most, None if that is not known before, and the same as code; `asks`: whether
    there is a first step, where each step says whether there is another.
    """
    writer, asking = op.writer, int(asks is not None)
    count, counting = limit
    after, rows_made = step.trials[asking : asking + len(states)], step.trials[asking + len(states) :]
    _check_states(op, states, after)
    blanks = [_blank(op, count, blank) for blank in rows_made]
    writer.lines.append(step.block)
    helper = "asking_loop" if asking else "counted_loop"
    writer.helpers.add(helper)
    first = f"{asks}, " if asking else ""
    held, room = as_tuple(states), as_tuple(blanks)
    code = f"{helper}({step.block.name}, {first}{counting}, {held}, {room})"
    rows = [writer.run(blank) for blank in blanks]
    rows = [writer.unsure(blank, [False, *[True] * (blank.dim() - 1)]) for blank in rows] if asking else rows
    values = assign_outputs(op, code, [*after, *rows])
    return values[: len(states)], values[len(states) :]


def _check_states(op: CodegenContext, states: Sequence[Expression], after: Sequence[torch.Tensor]) -> None:
    for at, (state, trial) in enumerate(zip(states, after, strict=True)):
        before: Any = op.writer.run(f"{state}")
        same = len(before.shape) == trial.dim() and all(map(same_size, before.shape, trial.shape))
        if before.dtype != trial.dtype or not same:
            op.refuse(
                f"what it carries at place {at} is {_worded(before)} before a step and {_worded(trial)} after it, "
                "and PyTorch's loop keeps shapes and dtypes",
                fix="collect what grows as a scan output, or make the number of steps a constant",
            )


def _worded(trial: torch.Tensor) -> str:
    return f"{str(trial.dtype).removeprefix('torch.')}[{', '.join(map(str, trial.shape))}]"


def _blank(op: CodegenContext, count: SizeTerm | None, row: torch.Tensor) -> str:
    """Return the code of a tensor with room for an output of every step."""
    if count is None:
        op.refuse("how many steps it has at most is not known before the first", fix="give it a trip count")
    sizes = [str(size) if isinstance(size, int) else op.writer.size_code(size) for size in row.shape]
    known_sizes = [size for size in sizes if size is not None]
    if len(known_sizes) < len(sizes):
        op.refuse("what a step makes has a size that shows only inside of it", fix="give it a size that an input has")
    return f"torch.zeros({as_tuple([count, *known_sizes])}, dtype={row.dtype}{op.writer.device})"


def _growing_loop(inside: InnerGraphWriter, loop: LoopArguments[Expression]) -> list[Expression]:
    """Write a loop that appends a tensor to an empty sequence at every step: the tensors are a scan output."""
    op, states = inside.op, loop.states
    places = [at for at, state in enumerate(states) if isinstance(state, ExpressionSequence)]
    lists = [state for state in states if isinstance(state, ExpressionSequence)]
    may_hold = any(isinstance(state, LoopSequence) or state.tensors for state in lists)
    plain = None if may_hold else without_lists(loop.body, len(states), places)
    if plain is None:
        op.refuse(UNKNOWN_LIST, fix=UNKNOWN_LIST_FIX)
    kept = [at for at in range(len(states)) if at not in places]
    outputs = _repeated_loop(inside, replace(loop, body=plain, states=[states[at] for at in kept]))
    first = len(outputs) - len(places)
    if any(state.dtype != before.dtype for state, before in zip(outputs[first:], lists, strict=True)):
        op.refuse("it appends tensors of another dtype than its sequence has", fix="cast them in the model")
    after = dict(zip(kept, outputs, strict=False)) | dict(zip(places, map(LoopSequence, outputs[first:]), strict=True))
    return [*(after[at] for at in range(len(states))), *outputs[len(kept) : first]]


def _repeated_loop(inside: InnerGraphWriter, loop: LoopArguments[Expression]) -> list[Expression]:
    op, body, states = inside.op, loop.body, loop.states
    origins = [_origin(body, name)[0] for name in body.outputs[1:]]
    fixed = {at: state for at, state in enumerate(states) if origins[at] == body.inputs[2 + at]}  # handed on unchanged
    moving = [at for at in range(len(states)) if at not in fixed]
    place, *inner = _arguments(op, [body.inputs[2 + at] for at in moving], [states[at] for at in moving])
    inputs = dict(zip(moving, inner, strict=True)) | fixed
    ends = [
        *([] if loop.condition is None else [0]),
        *(1 + at for at in moving),
        *range(1 + len(states), len(body.outputs)),
    ]

    def write(within: InnerGraphWriter) -> list[Expression]:
        goes_on = known(op.writer, np.array(True))  # a step runs only where the condition holds
        outputs = within.here(body, [place, goes_on, *(inputs[at] for at in range(len(states)))])
        return [outputs[at] for at in ends]

    limit, step = _limit_code(op, loop), inside.function("step", [place, *inner], write)
    last, outputs = _write_loop(op, step, limit, [states[at] for at in moving], loop.condition)
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


def _origin(body: Graph, name: str) -> tuple[str, Node | None]:
    """Return the first name of a value that Identity nodes hand on, and the node of the body that makes it."""
    makers = {output: node for node in body.nodes for output in node.outputs}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].inputs[0]
    return name, makers.get(name)


def _limit_code(op: CodegenContext, loop: LoopArguments[Expression]) -> tuple[SizeTerm | None, str]:
    """Return how many steps there are at most: as a size where there is such a number, and as code for the loop."""
    trips, most = loop.trips, loop.most
    if most is not None or trips is None:
        return (None, str(2**63 - 1)) if most is None or most >= _FAR else (most, str(most))
    (part,) = op.sizes(0, "trip count")
    count = op.writer.combine("max", part, 0)
    if trips.parts is not None:
        return count, str(count)
    return count, f"{trips}.reshape(())"  # PyTorch's loop takes a computed count as a tensor only


def scan(op: CodegenContext, inside: InnerGraphWriter) -> Sequence[Expression]:
    """Write Scan: its body once for each place along an axis of the scanned inputs."""
    body, scanning = op.graph("body"), scan_of(op)
    first, axis, _ = scanning.scanned[0]
    count = first.size(axis) if scanning.steps is None else scanning.steps
    if not isinstance(count, int) or not 0 < count <= _MOST_UNROLLED:
        final, outputs = _repeated_scan(inside, body, count, scanning)
        return [*final, *_laid_out(op, outputs)]

    def step(at: int, states: Sequence[Expression]) -> list[Expression]:
        places = [(value, axis, count - 1 - at if back else at) for value, axis, back in scanning.scanned]
        parts = [op.let(f"{value}.select({axis}, {place})") for value, axis, place in places]
        return inside.here(body, [*states, *parts])

    final, outputs = _unrolled(op, count, scanning.states, step)
    return [*final, *_laid_out(op, outputs)]


def _repeated_scan(
    inside: InnerGraphWriter, body: Graph, count: SizeTerm, scanning: ScanArguments[Expression]
) -> LoopResults:
    op, states = inside.op, scanning.states
    place, *inner = _arguments(op, body.inputs[: len(states)], states)

    def part(value: Expression, axis: int, back: bool) -> Expression:
        at = f"({atom(count)} - 1 - {place})" if back else f"{place}"
        return op.let(f"{value}.index_select({axis}, {at}.reshape(1)).squeeze({axis})")

    def write(within: InnerGraphWriter) -> list[Expression]:
        return within.here(body, [*inner, *(part(*source) for source in scanning.scanned)])

    return _write_loop(op, inside.function("step", [place, *inner], write), (count, str(count)), states)


def _laid_out(op: CodegenContext, stacks: Sequence[Expression]) -> list[Expression]:
    """Move what was stacked along axis 0 to the axis and the direction that the node asks for."""
    ends = ends_of(op, "output", stacks)
    turned = [op.let(f"{stack}.flip(0)") if back else stack for stack, back in zip(stacks, ends.backwards, strict=True)]
    return [
        op.let(f"{stack}.movedim(0, {axis})") if axis else stack for stack, axis in zip(turned, ends.axes, strict=True)
    ]
