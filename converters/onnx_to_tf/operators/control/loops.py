"""Loop and Scan: unrolled where the steps are few and their number is known, else a loop of TensorFlow's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....onnx_graph.graph import Graph, needed, reads
from ....onnx_graph.semantics.loops_and_sequences import (
    UNKNOWN_LIST,
    UNKNOWN_LIST_FIX,
    LoopArguments,
    ends_of,
    loop_arguments,
    scan_of,
    without_lists,
)
from ...common.tensor_sequence import TensorSequence
from ...common.while_loop import StepResult, run_loop
from ...lazy_tensorflow import tf
from ...lowerings import ANY, BOOL, lowers
from ...narrow_dtypes import CARRIERS
from ...operator_context import OperatorContext
from ...values import FAR, Size, TfTensor, Value, as_int32, computed, transpose
from .sequences import append_rows, stack_values, unstack

# A condition is computed ahead for this many steps at most; and this many are unrolled where nothing else works.
MOST_AHEAD = 256


@lowers("Loop", since=1, I=frozenset({"int64"}), B=BOOL, V=ANY)
def loop(op: OperatorContext) -> list[Value]:
    """Lower Loop: its body, as often as the trip count says and for as long as the condition holds."""
    arguments = loop_arguments(op)
    condition, states, body = arguments.condition, arguments.states, arguments.body
    count = _steps_ahead(op, arguments)
    listing = any(isinstance(state, TensorSequence) for state in states)
    if count is not None and count <= (MOST_AHEAD if listing else op.kernels.most_unrolled) and (count or listing):
        return _unrolled_loop(op, body, count, states)
    run = _growing_loop if listing else _repeated_loop
    if count is not None:  # the condition is settled with it
        return run(op, body, min(count, FAR), None, states)
    return run(op, body, _trip_limit(arguments.trips), condition, states)


def _unrolled_loop(op: OperatorContext, body: Graph, count: int, states: Sequence[Value]) -> list[Value]:
    carried, condition = len(states), op.known(np.array(True))
    rows: list[list[Value]] = []
    for at in range(count):
        condition, *answers = op.branch(body, [op.known(np.array(at, np.int64)), condition, *states])
        states = answers[:carried]
        rows.append(answers[carried:])
    return [*states, *(stack_values(op, list(parts), 0) for parts in zip(*rows, strict=True))]


def _growing_loop(
    op: OperatorContext, body: Graph, steps: Size | None, condition: Value | None, states: Sequence[Value]
) -> list[Value]:
    """Lower a loop that appends a tensor to a sequence at every step: the tensors are a scan output."""
    places = [at for at, state in enumerate(states) if isinstance(state, TensorSequence)]
    plain = without_lists(body, len(states), places)
    if plain is None:
        op.refuse(UNKNOWN_LIST, fix=UNKNOWN_LIST_FIX)
    plain_places = [at for at in range(len(states)) if at not in places]
    outputs = _repeated_loop(op, plain, steps, condition, [states[at] for at in plain_places])
    first = len(outputs) - len(places)
    grown = {at: append_rows(op, states[at], rows) for at, rows in zip(places, outputs[first:], strict=True)}
    after = dict(zip(plain_places, outputs, strict=False))
    return [*(grown.get(at) or after[at] for at in range(len(states))), *outputs[len(plain_places) : first]]


def _repeated_loop(
    op: OperatorContext, body: Graph, steps: Size | None, condition: Value | None, states: Sequence[Value]
) -> list[Value]:
    def step(count: TfTensor, goes_on: TfTensor, before: Sequence[TfTensor]) -> StepResult:
        place = computed(tf.cast(count, tf.int64))
        after, *answers = op.branch(body, [place, computed(goes_on), *map(computed, before)])
        tensors = [output.tensor() for output in answers]
        goes_on_after = tf.reshape(after.tensor(), []) if condition is not None else None
        return StepResult(tensors[: len(states)], tensors[len(states) :], goes_on_after)

    first = tf.reshape(condition.tensor(), []) if condition is not None else None
    final, stacks = run_loop(op, step, _state_tensors(op, states), steps, first)
    return [computed(tensor) for tensor in (*final, *stacks)]


def _state_tensors(op: OperatorContext, states: Sequence[Value]) -> list[TfTensor]:
    for state in states:
        if state.dtype in CARRIERS:
            op.refuse(f"it carries {state.dtype} from step to step", fix="cast it before the loop and inside it")
    return [state.tensor() for state in states]


def _trip_limit(trips: Value | None) -> Size | None:
    """Return the trip count, or None where there is none that is ever reached."""
    if trips is None:
        return None
    if trips.array is not None:
        count = int(trips.array.reshape(()))
        return None if count >= FAR else count
    return as_int32(tf.reshape(trips.tensor(), []))


def _steps_ahead(op: OperatorContext, loop: LoopArguments[Value]) -> int | None:
    """Return the number of steps, where the trip count and everything that the condition depends on are known."""
    trips, condition, states, body, most = loop.trips, loop.condition, loop.states, loop.body, loop.most
    if (trips is not None and most is None) or (condition is None) or most == 0:
        return most
    if condition.array is None:
        return None
    part, deciding = _condition_part(body, len(states))
    current, goes_on = list(states), condition
    if any(current[at].computing for at in deciding):
        return None
    constant = not deciding and body.inputs[0] not in reads(part)
    for at in range(min(MOST_AHEAD, MOST_AHEAD if most is None else most)):
        if goes_on.array is None or not goes_on.array.reshape(()):
            return None if goes_on.array is None else at
        if constant and at == 1:  # the same answer at every step
            break
        goes_on, *after = op.branch(part, [op.known(np.array(at, np.int64)), goes_on, *current])
        for place, value in zip(deciding, after, strict=True):
            current[place] = value
    known = goes_on.array is not None and bool(goes_on.array.reshape(()))
    return most if known and (constant or (most is not None and most <= MOST_AHEAD)) else None


def _condition_part(body: Graph, states: int) -> tuple[Graph, list[int]]:
    """Return the part of a body that computes its condition, and the places of the states that this depends on."""
    places: set[int] = set()
    while True:
        outputs = (body.outputs[0], *(body.outputs[1 + at] for at in sorted(places)))
        part = replace(body, nodes=needed(body.nodes, outputs), outputs=outputs)
        depended = {at for at in range(states) if body.inputs[2 + at] in reads(part)}
        if depended <= places:
            return part, sorted(places)
        places |= depended


@lowers("Scan", since=9, V=ANY)
def scan(op: OperatorContext) -> list[Value]:
    """Lower Scan: its body for each place along an axis of the scanned inputs; outputs lie along an axis again."""
    body, layout = op.graph("body"), scan_of(op)
    first, axis, _ = layout.scanned[0]
    steps = first.size(axis) if layout.steps is None else layout.steps
    if isinstance(steps, int) and 0 < steps <= op.kernels.most_unrolled:
        final, outputs = _unrolled_scan(op, body, steps, layout.states, layout.scanned)
    else:
        final, outputs = _repeated_scan(op, body, steps, layout.states, layout.scanned)
    return [*final, *_move_scan_axes(op, outputs)]


Scanned = tuple[Value, int, bool]  # a scanned input, its axis, and whether it runs backwards
ScanResult = tuple[Sequence[Value], list[Value]]  # the states at the end, and the outputs, stacked along axis 0


def _unrolled_scan(
    op: OperatorContext, body: Graph, steps: int, states: Sequence[Value], scanned: Sequence[Scanned]
) -> ScanResult:
    parts = [unstack(op, value, axis, steps) for value, axis, _ in scanned]
    turned = [part[::-1] if backwards else part for part, (_, _, backwards) in zip(parts, scanned, strict=True)]
    rows = []
    for elements in zip(*turned, strict=True):
        answers = op.branch(body, [*states, *elements])
        states = answers[: len(states)]
        rows.append(answers[len(states) :])
    return states, [stack_values(op, list(row), 0) for row in zip(*rows, strict=True)]


def _repeated_scan(
    op: OperatorContext, body: Graph, steps: Size, states: Sequence[Value], scanned: Sequence[Scanned]
) -> ScanResult:
    first = [
        (transpose(value.tensor(), [axis, *(other for other in range(value.rank) if other != axis)]), backwards)
        for value, axis, backwards in scanned
    ]

    def step(count: TfTensor, _goes_on: TfTensor, before: Sequence[TfTensor]) -> StepResult:
        parts = [tf.gather(tensor, steps - 1 - count if backwards else count) for tensor, backwards in first]
        tensors = [value.tensor() for value in op.branch(body, [computed(value) for value in (*before, *parts)])]
        return StepResult(tensors[: len(states)], tensors[len(states) :])

    final, stacks = run_loop(op, step, _state_tensors(op, states), steps)
    return [computed(tensor) for tensor in final], [computed(tensor) for tensor in stacks]


def _move_scan_axes(op: OperatorContext, outputs: Sequence[Value]) -> list[Value]:
    """Move outputs stacked along axis 0 to the axis and the direction that the node asks for."""
    ends = ends_of(op, "output", outputs)
    results = []
    for stack, axis, backwards in zip(outputs, ends.axes, ends.backwards, strict=True):
        if not axis and not backwards:
            results.append(stack)
            continue
        tensor = tf.reverse(stack.tensor(), [0]) if backwards else stack.tensor()
        results.append(computed(transpose(tensor, [*range(1, axis + 1), 0, *range(axis + 1, stack.rank)])))
    return results
