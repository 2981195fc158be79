"""Recurrent layers: RNN, GRU and LSTM, in both directions, with initial states, lengths and every activation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....onnx_graph.semantics.recurrent_attributes import Activation, RecurrentAttributes, recurrent_attributes
from ...safe_names import number
from ...values import as_tuple
from ...writers import FLOATS, CodegenContext, OutputCode, writes

# The code of each activation, by its numbers and its argument.
_ACTIVATIONS = {
    "affine": "{0} * {t} + {1}",
    "elu": "F.elu({t}, {0})",
    "hardsigmoid": "torch.clamp({0} * {t} + {1}, 0, 1)",
    "leakyrelu": "F.leaky_relu({t}, {0})",
    "relu": "torch.relu({t})",
    "scaledtanh": "{0} * torch.tanh({1} * {t})",
    "sigmoid": "torch.sigmoid({t})",
    "softplus": "F.softplus({t}, threshold=40)",
    "softsign": "F.softsign({t})",
    "tanh": "torch.tanh({t})",
    "thresholdedrelu": "torch.where({t} > {0}, {t}, torch.zeros_like({t}))",
}


@dataclass(frozen=True)
class RecurrentCode:
    """What the three operators share, as code."""

    op: CodegenContext
    attributes: RecurrentAttributes
    x: str
    weights: str  # w, r, b
    lengths: str | None
    activations: str | None  # None are the usual ones

    def state(self, at: int) -> str:
        """Return an initial state (D, B, H), or zeros."""
        state = self.op.optional(at)
        if state is None:
            return f"initial_state({self.x}, {len(self.attributes.backwards)}, {self.attributes.hidden})"
        return f"{state}.transpose(0, 1)" if self.attributes.batch_first else f"{state}"

    def options(self, *more: str) -> str:
        """Return the arguments that differ from the helper's defaults."""
        backwards = self.attributes.backwards
        options = [f"backwards={backwards}"] if backwards != (False,) else []
        options += [f"lengths={self.lengths}"] if self.lengths else []
        options += [f"f={self.activations}"] if self.activations else []
        return "".join(f", {option}" for option in (*options, *more))

    @property
    def plain(self) -> bool:
        """Whether PyTorch's own layer computes it."""
        return self.lengths is None and self.activations is None

    def answers(self, call: str) -> OutputCode:
        """Write the call, and return Y and each final state."""
        outputs = self.op.unpack(call, 3 if self.op.node.op_type == "LSTM" else 2)
        if not self.attributes.batch_first:
            return outputs
        first = f"{outputs[0]}.permute(2, 0, 1, 3)" if self.op.wants(0) else None
        return [first, *(f"{state}.transpose(0, 1)" for state in outputs[1:])]


def _layer(op: CodegenContext) -> RecurrentCode:
    attributes = recurrent_attributes(op)
    sequence, w, r, b = op.value(0), op.value(1), op.value(2), op.optional(3)
    x = f"{op.let(f'{sequence}.transpose(0, 1)', 'steps_first')}" if attributes.batch_first else f"{sequence}"
    zeros = op.known(np.zeros((len(attributes.backwards), 2 * (r.shape[1] or 0)), sequence.dtype))
    lengths, steps = op.optional(4), sequence.shape[1 if attributes.batch_first else 0]
    if lengths is not None and lengths.array is not None and steps is not None and (lengths.array == steps).all():
        lengths = None
    functions = [_activation(it, attributes.clip) for activations in attributes.activations for it in activations]
    weights, activations = f"{w}, {r}, {zeros if b is None else b}", None if attributes.usual else as_tuple(functions)
    return RecurrentCode(op, attributes, x, weights, None if lengths is None else f"{lengths}", activations)


def _activation(activation: Activation, clip: float | None) -> str:
    """Return the text of a function."""
    limit = "" if clip is None else number(clip)
    clipped = f"torch.clamp(t, -{limit}, {limit})" if limit else "t"
    numbers = [f"({number(it)})" for it in activation.numbers]
    return f"lambda t: {_ACTIVATIONS[activation.name].format(*numbers, t=clipped)}"


@writes("RNN", since=7, T=FLOATS)
def rnn(op: CodegenContext) -> OutputCode:
    """Write RNN: h' = f(x W + h R + b)."""
    layer = _layer(op)
    return layer.answers(f"rnn({layer.x}, {layer.weights}, {layer.state(5)}{layer.options()})")


@writes("GRU", since=7, T=FLOATS)
def gru(op: CodegenContext) -> OutputCode:
    """Write GRU; PyTorch has the one that resets after the product."""
    layer, late = _layer(op), op.flag("linear_before_reset")
    if late and layer.plain:
        return layer.answers(f"torch_gru({layer.x}, {layer.weights}, {layer.state(5)}{layer.options()})")
    return layer.answers(f"gru({layer.x}, {layer.weights}, {layer.state(5)}, {late}{layer.options()})")


@writes("LSTM", since=7, T=FLOATS)
def lstm(op: CodegenContext) -> OutputCode:
    """Write LSTM."""
    layer, coupled, peepholes = _layer(op), op.flag("input_forget"), op.optional(7)
    arguments = f"{layer.x}, {layer.weights}, {layer.state(5)}, {layer.state(6)}"
    if layer.plain and not coupled and peepholes is None:
        return layer.answers(f"torch_lstm({arguments}{layer.options()})")
    more = [f"peepholes={peepholes}"] if peepholes is not None else []
    return layer.answers(f"lstm({arguments}{layer.options(*more, *(['coupled=True'] if coupled else []))})")
