"""A loop whose steps carry states and compute outputs: the form of Loop, Scan and long recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..lazy_tensorflow import tf
from ..operator_context import OperatorContext
from ..values import Size, TfTensor


@dataclass(frozen=True)
class StepResult:
    """The result of one step: the states after it, its outputs, and whether another step follows (None: it does)."""

    states: Sequence[TfTensor]
    outputs: Sequence[TfTensor]
    goes_on: TfTensor | None = None


# From the number of steps before (int32), the condition that the step before it returned (bool), and the states.
Step = Callable[[TfTensor, TfTensor, Sequence[TfTensor]], StepResult]


def run_loop(
    op: OperatorContext, step: Step, states: Sequence[TfTensor], steps: Size | None, goes_on: TfTensor | None = None
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


def _settled_shapes(op: OperatorContext, step: Step, states: Sequence[TfTensor]) -> tuple[list[Any], list[Any]]:
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


def _traced(step: Step, specs: Sequence[Any]) -> StepResult:
    """Trace one step on its own, for its shapes."""
    results: list[StepResult] = []

    def traced_step(count: TfTensor, goes_on: TfTensor, *states: TfTensor) -> Sequence[TfTensor]:
        results.append(step(count, goes_on, states))
        return [*results[0].states, *results[0].outputs]

    signature = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.bool), *specs]
    tf.function(traced_step, input_signature=signature, autograph=False).get_concrete_function()
    return results[0]
