"""Loop and Scan. Unrolled where the steps are few and their number is known, and else a loop of TensorFlow's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....onnx_graph.graph import Graph, needed, reads
from ....onnx_graph.semantics.loop_signature import (
    UNKNOWN_LIST,
    UNKNOWN_LIST_FIX,
    LoopArguments,
    ends_of,
    loop_arguments,
    scan_of,
    without_lists,
)
from ...common.tensor_sequence import TensorSequence
from ...common.while_loop import StepResult, repeat
from ...lazy_tensorflow import tf
from ...lowerings import ANY, BOOL, lowers
from ...narrow_dtypes import CARRIERS
from ...operator_context import Op
from ...values import FAR, Size, TfTensor, Value, as_int32, computed, transpose
from .sequences import longer, stacked, unstacked

# A condition is worked out ahead for as many steps at most; and so many steps are unrolled where there is no other way.
MOST_AHEAD = 256


@lowers("Loop", since=1, I=frozenset({"int64"}), B=BOOL, V=ANY)
def loop(op: Op) -> list[Value]:
    """Its body, as often as the trip count says and for as long as the condition holds."""
    arguments = loop_arguments(op)
    condition, states, body = arguments.condition, arguments.states, arguments.body
    count = _steps_ahead(op, arguments)
    listing = any(isinstance(each, TensorSequence) for each in states)
    if count is not None and count <= (MOST_AHEAD if listing else op.kernels.most_unrolled) and (count or listing):
        return _unrolled_loop(op, body, count, states)
    run = _growing_loop if listing else _repeated_loop
    if count is not None:  # the condition is settled with it
        return run(op, body, min(count, FAR), None, states)
    return run(op, body, _limit(arguments.trips), condition, states)


def _unrolled_loop(op: Op, body: Graph, count: int, states: Sequence[Value]) -> list[Value]:
    carried, told = len(states), op.known(np.array(True))
    made: list[list[Value]] = []
    for at in range(count):
        told, *answers = op.branch(body, [op.known(np.array(at, np.int64)), told, *states])
        states = answers[:carried]
        made.append(answers[carried:])
    return [*states, *(stacked(op, list(parts), 0) for parts in zip(*made, strict=True))]


def _growing_loop(
    op: Op, body: Graph, steps: Size | None, condition: Value | None, states: Sequence[Value]
) -> list[Value]:
    """A loop that appends a tensor to a sequence at every step: the tensors are a scan output."""
    places = [at for at, each in enumerate(states) if isinstance(each, TensorSequence)]
    plain = without_lists(body, len(states), places)
    if plain is None:
        op.refuse(UNKNOWN_LIST, fix=UNKNOWN_LIST_FIX)
    others = [at for at in range(len(states)) if at not in places]
    made = _repeated_loop(op, plain, steps, condition, [states[at] for at in others])
    first = len(made) - len(places)
    grown = {at: longer(op, states[at], rows) for at, rows in zip(places, made[first:], strict=True)}
    after = dict(zip(others, made, strict=False))
    return [*(grown.get(at) or after[at] for at in range(len(states))), *made[len(others) : first]]


def _repeated_loop(
    op: Op, body: Graph, steps: Size | None, condition: Value | None, states: Sequence[Value]
) -> list[Value]:
    def step(count: TfTensor, told: TfTensor, given: Sequence[TfTensor]) -> StepResult:
        place = computed(tf.cast(count, tf.int64))
        after, *answers = op.branch(body, [place, computed(told), *map(computed, given)])
        tensors = [each.tensor() for each in answers]
        goes_on = tf.reshape(after.tensor(), []) if condition is not None else None
        return StepResult(tensors[: len(states)], tensors[len(states) :], goes_on)

    first = tf.reshape(condition.tensor(), []) if condition is not None else None
    final, made = repeat(op, step, _tensors(op, states), steps, first)
    return [computed(each) for each in (*final, *made)]


def _tensors(op: Op, states: Sequence[Value]) -> list[TfTensor]:
    for each in states:
        if each.dtype in CARRIERS:
            op.refuse(f"it carries {each.dtype} from step to step", fix="cast it before the loop and inside it")
    return [each.tensor() for each in states]


def _limit(trips: Value | None) -> Size | None:
    """The trip count, or None where there is none that is ever reached."""
    if trips is None:
        return None
    if trips.array is not None:
        count = int(trips.array.reshape(()))
        return None if count >= FAR else count
    return as_int32(tf.reshape(trips.tensor(), []))


def _steps_ahead(op: Op, loop: LoopArguments[Value]) -> int | None:
    """How many steps there will be, where the trip count and all that the condition depends on are known."""
    trips, condition, states, body, most = loop.trips, loop.condition, loop.states, loop.body, loop.most
    if (trips is not None and most is None) or (condition is None) or most == 0:
        return most
    if condition.array is None:
        return None
    part, deciding = _deciding(body, len(states))
    current, told = list(states), condition
    if any(current[at].computing for at in deciding):
        return None
    constant = not deciding and body.inputs[0] not in reads(part)
    for at in range(min(MOST_AHEAD, MOST_AHEAD if most is None else most)):
        if told.array is None or not told.array.reshape(()):
            return None if told.array is None else at
        if constant and at == 1:  # the same answer at every step
            break
        told, *after = op.branch(part, [op.known(np.array(at, np.int64)), told, *current])
        for place, value in zip(deciding, after, strict=True):
            current[place] = value
    known = told.array is not None and bool(told.array.reshape(()))
    return most if known and (constant or (most is not None and most <= MOST_AHEAD)) else None


def _deciding(body: Graph, states: int) -> tuple[Graph, list[int]]:
    """The part of a body that makes its condition, and the states, by their places, that this depends on."""
    places: set[int] = set()
    while True:
        outputs = (body.outputs[0], *(body.outputs[1 + at] for at in sorted(places)))
        part = replace(body, nodes=needed(body.nodes, outputs), outputs=outputs)
        found = {at for at in range(states) if body.inputs[2 + at] in reads(part)}
        if found <= places:
            return part, sorted(places)
        places |= found


@lowers("Scan", since=9, V=ANY)
def scan(op: Op) -> list[Value]:
    """Its body once for each place along an axis of the scanned inputs; what it makes lies along an axis again."""
    body, found = op.graph("body"), scan_of(op)
    first, axis, _ = found.scanned[0]
    steps = first.size(axis) if found.steps is None else found.steps
    if isinstance(steps, int) and 0 < steps <= op.kernels.most_unrolled:
        final, made = _unrolled_scan(op, body, steps, found.states, found.scanned)
    else:
        final, made = _repeated_scan(op, body, steps, found.states, found.scanned)
    return [*final, *_laid_out(op, made)]


Scanned = tuple[Value, int, bool]  # a scanned input, its axis, and whether it runs backwards
Made = tuple[Sequence[Value], list[Value]]  # the states at the end, and what was made, stacked along axis 0


def _unrolled_scan(op: Op, body: Graph, steps: int, states: Sequence[Value], scanned: Sequence[Scanned]) -> Made:
    parts = [unstacked(op, value, axis, steps) for value, axis, _ in scanned]
    turned = [part[::-1] if backwards else part for part, (_, _, backwards) in zip(parts, scanned, strict=True)]
    made = []
    for given in zip(*turned, strict=True):
        answers = op.branch(body, [*states, *given])
        states = answers[: len(states)]
        made.append(answers[len(states) :])
    return states, [stacked(op, list(each), 0) for each in zip(*made, strict=True)]


def _repeated_scan(op: Op, body: Graph, steps: Size, states: Sequence[Value], scanned: Sequence[Scanned]) -> Made:
    first = [(_along(value, axis), backwards) for value, axis, backwards in scanned]

    def step(count: TfTensor, _told: TfTensor, given: Sequence[TfTensor]) -> StepResult:
        parts = [tf.gather(tensor, steps - 1 - count if backwards else count) for tensor, backwards in first]
        tensors = [each.tensor() for each in op.branch(body, [computed(each) for each in (*given, *parts)])]
        return StepResult(tensors[: len(states)], tensors[len(states) :])

    final, made = repeat(op, step, _tensors(op, states), steps)
    return [computed(each) for each in final], [computed(each) for each in made]


def _along(value: Value, axis: int) -> TfTensor:
    """With the steps as the first axis."""
    order = [axis, *(each for each in range(value.rank) if each != axis)]
    return transpose(value.tensor(), order)


def _laid_out(op: Op, made: Sequence[Value]) -> list[Value]:
    """What was stacked along axis 0, along the axis and in the direction that the node asks for."""
    ends = ends_of(op, "output", made)
    answers = []
    for each, axis, backwards in zip(made, ends.axes, ends.backwards, strict=True):
        if not axis and not backwards:
            answers.append(each)
            continue
        tensor = tf.reverse(each.tensor(), [0]) if backwards else each.tensor()
        answers.append(computed(transpose(tensor, [*range(1, axis + 1), 0, *range(axis + 1, each.rank)])))
    return answers
