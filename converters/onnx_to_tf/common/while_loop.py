"""A loop whose steps carry states and make outputs: what Loop, Scan and long recurrent layers become."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..lazy_tensorflow import tf
from ..operator_context import Op
from ..values import Size, TfTensor

# Unrolled steps run faster and can be quantised; each costs TFLite's converter about 30 ms, a loop 300 ms in all.
MOST_UNROLLED = 16


@dataclass(frozen=True)
class Turn:
    """What one step makes: the states after it, its outputs, and whether another step follows (None: it does)."""

    states: Sequence[TfTensor]
    outputs: Sequence[TfTensor]
    goes_on: TfTensor | None = None


# From the number of steps before this one (int32), whether it was told to go on (bool), and the states before it.
Step = Callable[[TfTensor, TfTensor, Sequence[TfTensor]], Turn]


def repeat(
    op: Op, step: Step, states: Sequence[TfTensor], steps: Size | None, goes_on: TfTensor | None = None
) -> tuple[list[TfTensor], list[TfTensor]]:
    """The states after the last step, and each output of all steps, stacked along a first axis.

    There are `steps` steps at most (None: no such limit), and no further one after one that says so; `goes_on` says it
    for the first. A state's sizes may change from step to step, its rank and its dtype may not.
    """
    shapes, specs = _settled(op, step, states)
    exactly = steps if goes_on is None else None
    piles = [op.kernels.pile(spec, exactly) for spec in specs]

    def body(count: TfTensor, told: TfTensor, given: Any, made: Any) -> tuple[Any, ...]:
        turn = step(count, told, given)
        more = tuple(pile.add(state, count, each) for pile, state, each in zip(piles, made, turn.outputs, strict=True))
        return count + 1, told if turn.goes_on is None else turn.goes_on, tuple(turn.states), more

    def condition(count: TfTensor, told: TfTensor, *_: Any) -> TfTensor:
        if steps is None:
            return told
        return count < steps if goes_on is None else tf.logical_and(told, count < steps)

    start = (
        tf.constant(0), tf.constant(True) if goes_on is None else goes_on,
        tuple(states), tuple(pile.empty() for pile in piles),
    )  # fmt: skip
    scalar = tf.TensorShape([])
    invariants = (scalar, scalar, tuple(shapes), tuple(pile.invariant() for pile in piles))
    count, _, final, made = tf.while_loop(condition, body, start, shape_invariants=invariants)
    length = exactly if isinstance(exactly, int) else None
    stacked = [pile.stacked(state, count) for pile, state in zip(piles, made, strict=True)]
    for each, spec in zip(stacked, specs, strict=True):
        each.set_shape([length, *spec.shape])
    return list(final), stacked


def _settled(op: Op, step: Step, states: Sequence[TfTensor]) -> tuple[list[Any], list[Any]]:
    """The shapes that the states have before every step, and shape and dtype of every output: a step is traced until
    it makes no shape less certain than it was given."""
    shapes = [state.shape for state in states]
    while True:
        turn = _traced(step, [tf.TensorSpec(shape, state.dtype) for shape, state in zip(shapes, states, strict=True)])
        for at, (after, shape, state) in enumerate(zip(turn.states, shapes, states, strict=True)):
            if (after.dtype, after.shape.rank) != (state.dtype, shape.rank):
                op.refuse(
                    f"what it carries at place {at} is {state.dtype.name} of {shape.rank} axes before a step, "
                    f"and {after.dtype.name} of {after.shape.rank} after it"
                )
        merged = [
            tf.TensorShape([a if a == b else None for a, b in zip(shape, after.shape, strict=True)])
            for shape, after in zip(shapes, turn.states, strict=True)
        ]
        if [each.as_list() for each in merged] == [each.as_list() for each in shapes]:
            return shapes, [tf.TensorSpec(each.shape, each.dtype) for each in turn.outputs]
        shapes = merged


def _traced(step: Step, specs: Sequence[Any]) -> Turn:
    """One step on its own, for its shapes."""
    turns: list[Turn] = []

    def once(count: TfTensor, told: TfTensor, *states: TfTensor) -> Sequence[TfTensor]:
        turns.append(step(count, told, states))
        return [*turns[0].states, *turns[0].outputs]

    signature = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.bool), *specs]
    tf.function(once, input_signature=signature, autograph=False).get_concrete_function()
    return turns[0]
