"""A loop whose steps carry states and compute outputs, of Loop, Scan and recurrent layers, where few are unrolled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..lazy_tensorflow import tf
from ..operator_context import OperatorContext
from ..values import Size, TfTensor, pack_sizes


@dataclass(frozen=True)
class StepResult:
    """The result of one step: the states after it, its outputs, and whether another step follows (None: it does)."""

    states: Sequence[TfTensor]
    outputs: Sequence[TfTensor]
    goes_on: TfTensor | None = None


# From the number of steps before (int32), the condition that the step before it returned (bool), and the states.
LoopStep = Callable[[TfTensor, TfTensor, Sequence[TfTensor]], StepResult]


def run_loop(
    op: OperatorContext, step: LoopStep, states: Sequence[TfTensor], steps: Size | None, goes_on: TfTensor | None = None
) -> tuple[list[TfTensor], list[TfTensor]]:
    """Run a loop; return the states after the last step, and each output of all steps, stacked along a first axis.

    There are `steps` steps at most (None: no such limit), and no further one after one that says so; `goes_on` says it
    for the first. A state's sizes may change from step to step, its rank and its dtype may not.
    """
    shapes, specs = _settled_shapes(op, step, states)
    exactly = steps if goes_on is None else None
    collectors = [op.kernels.collector(spec, exactly) for spec in specs]

    def body(count: TfTensor, goes_on_now: TfTensor, before: Any, collected: Any) -> tuple[Any, ...]:
        result = step(count, goes_on_now, before)
        triples = zip(collectors, collected, result.outputs, strict=True)
        more = tuple(collector.add(state, count, output) for collector, state, output in triples)
        return count + 1, goes_on_now if result.goes_on is None else result.goes_on, tuple(result.states), more

    def condition(count: TfTensor, goes_on_now: TfTensor, *_: Any) -> TfTensor:
        if steps is None:
            return goes_on_now
        return count < steps if goes_on is None else tf.logical_and(goes_on_now, count < steps)

    start = (
        tf.constant(0), tf.constant(True) if goes_on is None else goes_on,
        tuple(states), tuple(collector.empty() for collector in collectors),
    )  # fmt: skip
    scalar = tf.TensorShape([])
    invariants = (scalar, scalar, tuple(shapes), tuple(collector.invariant() for collector in collectors))
    count, _, final, collected = tf.while_loop(condition, body, start, shape_invariants=invariants)
    length = exactly if isinstance(exactly, int) else None
    stacked = [collector.stacked(state, count) for collector, state in zip(collectors, collected, strict=True)]
    for tensor, spec in zip(stacked, specs, strict=True):
        tensor.set_shape([length, *spec.shape])
    return list(final), stacked


def _settled_shapes(op: OperatorContext, step: LoopStep, states: Sequence[TfTensor]) -> tuple[list[Any], list[Any]]:
    """Return the states' shapes and the outputs' specs: a step is traced until no shape gets less certain by it."""
    shapes = [state.shape for state in states]
    while True:
        result = _traced(step, [tf.TensorSpec(shape, state.dtype) for shape, state in zip(shapes, states, strict=True)])
        for at, (after, shape, state) in enumerate(zip(result.states, shapes, states, strict=True)):
            if (after.dtype, after.shape.rank) != (state.dtype, shape.rank):
                op.refuse(
                    f"what it carries at place {at} is {state.dtype.name} of {shape.rank} axes before a step, "
                    f"and {after.dtype.name} of {after.shape.rank} after it"
                )
        merged = [
            tf.TensorShape([a if a == b else None for a, b in zip(shape, after.shape, strict=True)])
            for shape, after in zip(shapes, result.states, strict=True)
        ]
        if [shape.as_list() for shape in merged] == [shape.as_list() for shape in shapes]:
            return shapes, [tf.TensorSpec(output.shape, output.dtype) for output in result.outputs]
        shapes = merged


def _traced(step: LoopStep, specs: Sequence[Any]) -> StepResult:
    """Trace one step on its own, for its shapes."""
    results: list[StepResult] = []

    def traced_step(count: TfTensor, goes_on: TfTensor, *states: TfTensor) -> Sequence[TfTensor]:
        results.append(step(count, goes_on, states))
        return [*results[0].states, *results[0].outputs]

    signature = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.bool), *specs]
    tf.function(traced_step, input_signature=signature, autograph=False).get_concrete_function()
    return results[0]


# From a step's input and the states before it, the states after it. The first state is also the step's output.
RecurrentStep = Callable[[TfTensor, "tuple[TfTensor, ...]"], "tuple[TfTensor, ...]"]


def run_steps(
    op: OperatorContext,
    inputs: TfTensor,
    steps: Size,
    step: RecurrentStep,
    initial: Sequence[TfTensor],
    *,
    backwards: bool,
    lengths: TfTensor | None,
    outputs: bool,
) -> tuple[TfTensor | None, tuple[TfTensor, ...]]:
    """Run `step` along axis 0 of `inputs` (T, B, ...), from the end if `backwards`.

    A sample's states stay, and its outputs are zero, from its length on (`lengths` (B,), or None for all T). Returns
    the outputs (T, B, H) in the order of the inputs, or None unless `outputs` is set, and the final states.
    """

    def at_place(place: Size, row: TfTensor, states: tuple[TfTensor, ...]) -> tuple[TfTensor, tuple[TfTensor, ...]]:
        """Return output and states of a place, with samples held still behind their length."""
        after = step(row, states)
        if lengths is None:
            return after[0], after
        alive = (place < lengths)[:, None]
        held = tuple(tf.where(alive, new, old) for new, old in zip(after, states, strict=True))
        return tf.where(alive, after[0], tf.zeros_like(after[0])), held

    if isinstance(steps, int) and 0 < steps <= op.kernels.most_unrolled:
        rows, states = tf.unstack(inputs, steps), tuple(initial)
        results: list[TfTensor] = [None] * steps
        for place in reversed(range(steps)) if backwards else range(steps):
            results[place], states = at_place(place, rows[place], states)
        return (tf.stack(results) if outputs else None), states

    def turn(count: TfTensor, _goes_on: TfTensor, before: Sequence[TfTensor]) -> StepResult:
        place = steps - 1 - count if backwards else count
        output, after = at_place(place, tf.gather(inputs, place), tuple(before))
        return StepResult(after, [output] if outputs else [])

    batch = tf.shape(inputs)[1] if inputs.shape[1] is None else inputs.shape[1]
    first = [tf.broadcast_to(state, pack_sizes([batch, state.shape[-1]])) for state in initial]
    final, stacked = run_loop(op, turn, first, steps)
    if not outputs:
        return None, tuple(final)
    return tf.reverse(stacked[0], [0]) if backwards else stacked[0], tuple(final)
