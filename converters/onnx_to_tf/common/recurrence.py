"""The steps of a recurrent layer: unrolled where they are few, a loop where they are many or not counted yet.

Scan, the operator, is lowered with Loop in converters/onnx_to_tf/operators/control/loops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..lazy_tensorflow import tf
from ..operator_context import OperatorContext
from ..values import Size, TfTensor, pack_sizes
from .while_loop import StepResult, run_loop

# From a step's input and the states before it, the states after it. The first state is also the step's output.
Step = Callable[[TfTensor, "tuple[TfTensor, ...]"], "tuple[TfTensor, ...]"]


def run_steps(
    op: OperatorContext,
    inputs: TfTensor,
    steps: Size,
    step: Step,
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
