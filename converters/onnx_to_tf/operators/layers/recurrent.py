"""Recurrent layers: RNN, GRU and LSTM, in both directions, with initial states, lengths and every activation.

Names as in the specification: T steps, D directions, B samples, H hidden elements; each gate has H rows of W and R. The
batch may be any: no state has a fixed size along it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....onnx_graph.semantics.recurrent_attributes import Activation, recurrent_attributes
from ...common.while_loop import RecurrentStep, run_steps
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, computed, pack_sizes, reshape

_LENGTHS = frozenset({"int32"})

# Each activation by its argument and its numbers.
_ACTIVATIONS: dict[str, Callable[..., TfTensor]] = {
    "affine": lambda t, a, b: a * t + b,
    "elu": lambda t, a: tf.where(t < 0, a * tf.nn.elu(t), t),
    "hardsigmoid": lambda t, a, b: tf.clip_by_value(a * t + b, 0.0, 1.0),
    "leakyrelu": lambda t, a: tf.where(t < 0, a * t, t),
    "relu": lambda t: tf.nn.relu(t),  # noqa: PLW0108 - TensorFlow is imported by the call
    "scaledtanh": lambda t, a, b: a * tf.tanh(b * t),
    "sigmoid": lambda t: tf.sigmoid(t),  # noqa: PLW0108
    "softplus": lambda t: tf.math.softplus(t),  # noqa: PLW0108
    "softsign": lambda t: tf.nn.softsign(t),  # noqa: PLW0108
    "tanh": lambda t: tf.tanh(t),  # noqa: PLW0108
    "thresholdedrelu": lambda t, a: tf.where(t > a, t, tf.zeros_like(t)),
}

Function = Callable[[TfTensor], TfTensor]


@dataclass(frozen=True)
class RecurrentLayer:
    """The parts that the three operators share."""

    op: OperatorContext
    hidden: int
    directions: tuple[bool, ...]  # whether it runs backwards
    activations: tuple[tuple[Function, ...], ...]  # by direction
    batch_first: bool


@dataclass(frozen=True)
class DirectionWeights:
    """One direction's W (I, gates H) and R (H, gates H), transposed, their biases, and `product` of rows with one."""

    w: Any
    r: Any
    w_bias: TfTensor | None
    r_bias: TfTensor | None
    product: Callable[[TfTensor, Any], TfTensor]


def read_layer(op: OperatorContext, hidden_axis: int = -1) -> RecurrentLayer:
    """Read the node's layer; R has a place for each hidden element along `hidden_axis`."""
    attributes = recurrent_attributes(op, hidden_axis)
    functions = tuple(
        tuple(_function(it, attributes.clip) for it in activations) for activations in attributes.activations
    )
    return RecurrentLayer(op, attributes.hidden, attributes.backwards, functions, attributes.batch_first)


def _function(activation: Activation, clip: float | None) -> Function:
    function, numbers = _ACTIVATIONS[activation.name], activation.numbers
    if clip is None:
        return lambda t: function(t, *numbers)
    return lambda t: function(tf.clip_by_value(t, -clip, clip), *numbers)


def _weights(op: OperatorContext, at: int) -> DirectionWeights:
    """Return the weights of direction `at`."""
    w, r = (_transpose_weight(op, op.value(index), at) for index in (1, 2))
    return DirectionWeights(w, r, *biases(op, at), tf.matmul)


def biases(op: OperatorContext, at: int) -> tuple[TfTensor | None, TfTensor | None]:
    """Return the biases of the input and of the state in direction `at`; none where the model has none."""
    bias = op.optional(3)
    return (None, None) if bias is None else tuple(tf.split(bias.tensor()[at], 2))


def _transpose_weight(op: OperatorContext, value: Value, at: int) -> TfTensor:
    if value.array is not None:
        return op.weights.hold(value.array, (1, 0), part=at)
    return tf.transpose(value.tensor()[at])


def _run(
    layer: RecurrentLayer,
    cell: Callable[[DirectionWeights, int], RecurrentStep],
    states: Sequence[int],
    fused: int,
    weights_of: Callable[[OperatorContext, int], DirectionWeights] = _weights,
) -> list[list[TfTensor]]:
    """Run every direction: for each the outputs (T, B, H), and the final states.

    `cell(weights, direction)` returns the step; the first `fused` columns of the recurrent bias are added to the
    input's projection at once, for all steps.
    """
    op = layer.op
    x = tf.transpose(op.tensor(0), [1, 0, 2]) if layer.batch_first else op.tensor(0)
    steps, batch = op.value(0).size(int(layer.batch_first)), op.value(0).size(int(not layer.batch_first))
    lengths = _lengths(op, steps)
    results = []
    for at, backwards in enumerate(layer.directions):
        weights = weights_of(op, at)
        initial = [_initial_state(layer, index, at, batch) for index in states]
        turned = backwards and lengths is not None
        fed = tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1) if turned else x
        projected = _project_inputs(fed, weights, fused, steps, batch)
        outputs, final = run_steps(
            op, projected, steps, cell(weights, at), initial,
            backwards=backwards and not turned, lengths=lengths, outputs=op.wants(0),
        )  # fmt: skip
        if turned and outputs is not None:
            outputs = tf.reverse_sequence(outputs, lengths, seq_axis=0, batch_axis=1)
        results.append([outputs, *final])
    return results


def _lengths(op: OperatorContext, steps: Size) -> TfTensor | None:
    lengths = op.optional(4)
    if lengths is None or (lengths.array is not None and isinstance(steps, int) and (lengths.array == steps).all()):
        return None
    return lengths.tensor()


def _initial_state(layer: RecurrentLayer, index: int, at: int, batch: Size) -> TfTensor:
    """Return the initial state (B, H): the model's, or zeros."""
    initial = layer.op.optional(index)
    if initial is None:
        return tf.zeros(pack_sizes([batch, layer.hidden]), layer.op.value(0).dtype)
    return initial.tensor()[:, at] if layer.batch_first else initial.tensor()[at]


def _project_inputs(x: TfTensor, weights: DirectionWeights, fused: int, steps: Size, batch: Size) -> TfTensor:
    """Return the input's part of every gate, (T, B, gates H), by one product for all steps."""
    flat = weights.product(tf.reshape(x, [-1, x.shape[-1]]), weights.w)
    width = flat.shape[-1]
    if weights.w_bias is not None and weights.r_bias is not None:
        also = tf.pad(weights.r_bias[:fused], [[0, width - fused]]) if fused < width else weights.r_bias
        flat = flat + (weights.w_bias + also)
    return reshape(flat, [steps, batch, width])


def _outputs(layer: RecurrentLayer, directions: list[list[TfTensor]]) -> list[Value | None]:
    """Return Y (T, D, B, H), or (B, T, D, H) with the batch first; then each state (D, B, H), or (B, D, H)."""
    outputs = None
    if layer.op.wants(0):
        outputs = computed(tf.stack([direction[0] for direction in directions], 1))
        if layer.batch_first:
            outputs = computed(tf.transpose(outputs.tensor(), [2, 0, 1, 3]))
    axis = 1 if layer.batch_first else 0
    return [outputs, *[computed(tf.stack(parts, axis)) for parts in list(zip(*directions, strict=True))[1:]]]


@lowers("RNN", since=7, T=FLOATS, T1=_LENGTHS)
def rnn(op: OperatorContext) -> list[Value | None]:
    """Lower RNN, with one activation: h' = f(x W + h R + b)."""
    layer = read_layer(op)

    def cell(weights: DirectionWeights, at: int) -> RecurrentStep:
        (f,) = layer.activations[at]
        return lambda xw, states: (f(xw + tf.matmul(states[0], weights.r)),)

    return _outputs(layer, _run(layer, cell, [5], layer.hidden))


@lowers("GRU", since=7, T=FLOATS, T1=_LENGTHS)
def gru(op: OperatorContext) -> list[Value | None]:
    """Lower GRU: z, r = f(...); n = g(x Wh + r (h Rh + b)), or g(x Wh + (r h) Rh + b); h' = (1 - z) n + z h."""
    layer, late = read_layer(op), op.flag("linear_before_reset")
    hidden = layer.hidden

    def cell(weights: DirectionWeights, at: int) -> RecurrentStep:
        f, g = layer.activations[at]
        bias = None if weights.r_bias is None else weights.r_bias[2 * hidden :]
        gates, candidate = weights.r[:, : 2 * hidden], weights.r[:, 2 * hidden :]

        def step(xw: TfTensor, states: tuple[TfTensor, ...]) -> tuple[TfTensor, ...]:
            (h,) = states
            x_gates, x_candidate = tf.split(xw, [2 * hidden, hidden], -1)
            if late:
                h_gates, h_candidate = tf.split(tf.matmul(h, weights.r), [2 * hidden, hidden], -1)
                z, r = tf.split(f(x_gates + h_gates), 2, -1)
                n = g(x_candidate + r * (h_candidate if bias is None else h_candidate + bias))
            else:
                z, r = tf.split(f(x_gates + tf.matmul(h, gates)), 2, -1)
                n = g(x_candidate + tf.matmul(r * h, candidate))
            return ((1 - z) * n + z * h,)

        return step

    return _outputs(layer, _run(layer, cell, [5], 2 * hidden if late else 3 * hidden))


@lowers("LSTM", since=7, T=FLOATS, T1=_LENGTHS)
def lstm(op: OperatorContext) -> list[Value | None]:
    """Lower LSTM: i, o, f = f(...); c' = f c + i g(...); h' = o h(c'). Peepholes let the gates see c, and o see c'."""
    return run_lstm(read_layer(op), _weights)


def run_lstm(
    layer: RecurrentLayer, weights_of: Callable[[OperatorContext, int], DirectionWeights]
) -> list[Value | None]:
    """Run an LSTM with these weights of each direction."""
    op, coupled = layer.op, layer.op.flag("input_forget")
    peepholes = op.optional(7)

    def cell(weights: DirectionWeights, at: int) -> RecurrentStep:
        f, g, last = layer.activations[at]
        seen = None if peepholes is None else tf.split(peepholes.tensor()[at], 3)

        def step(xw: TfTensor, states: tuple[TfTensor, ...]) -> tuple[TfTensor, ...]:
            h, c = states
            i, o, forget, new = tf.split(xw + weights.product(h, weights.r), 4, -1)
            if seen is not None:
                i, forget = i + seen[0] * c, forget + seen[2] * c
            i = f(i)
            remembered = 1 - i if coupled else f(forget)
            c = remembered * c + i * g(new)
            o = f(o if seen is None else o + seen[1] * c)
            return (o * last(c), c)

        return step

    return _outputs(layer, _run(layer, cell, [5, 6], 4 * layer.hidden, weights_of))
