"""Recurrent layers: RNN, GRU and LSTM, in both directions, with initial states, lengths and every activation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....onnx_graph.semantics.recurrent_attributes import Activation, recurrent_attributes
from ...operator_context import Op
from ...safe_names import number
from ...statements import tupled
from ...writers import FLOATS, Written, writes

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
class Layer:
    """What the three operators share, as code."""

    op: Op
    hidden: int
    backwards: tuple[bool, ...]
    x: str
    weights: str  # w, r, b
    lengths: str | None
    activations: str | None  # None are the usual ones
    batch_first: bool

    def state(self, at: int) -> str:
        """An initial state (D, B, H), or zeros."""
        given = self.op.optional(at)
        if given is None:
            return f"initial_state({self.x}, {len(self.backwards)}, {self.hidden})"
        return f"{given}.transpose(0, 1)" if self.batch_first else f"{given}"

    def options(self, *more: str) -> str:
        """The arguments that are not as usual."""
        found = [f"backwards={self.backwards}"] if self.backwards != (False,) else []
        found += [f"lengths={self.lengths}"] if self.lengths else []
        found += [f"f={self.activations}"] if self.activations else []
        return "".join(f", {each}" for each in (*found, *more))

    @property
    def plain(self) -> bool:
        """Whether PyTorch's own layer may do it."""
        return self.lengths is None and self.activations is None

    def answers(self, call: str) -> Written:
        """Y, and each final state."""
        made = self.op.unpack(call, 3 if self.op.node.op_type == "LSTM" else 2)
        if not self.batch_first:
            return made
        first = f"{made[0]}.permute(2, 0, 1, 3)" if self.op.wants(0) else None
        return [first, *(f"{state}.transpose(0, 1)" for state in made[1:])]


def _layer(op: Op) -> Layer:
    attributes = recurrent_attributes(op)
    given, w, r, b = op.value(0), op.value(1), op.value(2), op.optional(3)
    backwards, batch_first = attributes.backwards, attributes.batch_first
    x = f"{op.let(f'{given}.transpose(0, 1)', 'steps_first')}" if batch_first else f"{given}"
    zeros = op.known(np.zeros((len(backwards), 2 * (r.shape[1] or 0)), given.dtype))
    lengths = op.optional(4)
    if lengths is not None and lengths.array is not None and given.shape[1 if batch_first else 0] is not None:
        lengths = None if (lengths.array == given.shape[1 if batch_first else 0]).all() else lengths
    functions = [_activation(it, attributes.clip) for activations in attributes.activations for it in activations]
    return Layer(
        op, attributes.hidden, backwards, x, f"{w}, {r}, {zeros if b is None else b}",
        None if lengths is None else f"{lengths}", None if attributes.usual else tupled(functions), batch_first,
    )  # fmt: skip


def _activation(activation: Activation, clip: float | None) -> str:
    """The text of a function."""
    limit = "" if clip is None else number(clip)
    clipped = f"torch.clamp(t, -{limit}, {limit})" if limit else "t"
    numbers = [f"({number(it)})" for it in activation.numbers]
    return f"lambda t: {_ACTIVATIONS[activation.name].format(*numbers, t=clipped)}"


@writes("RNN", since=7, T=FLOATS)
def rnn(op: Op) -> Written:
    """One activation: h' = f(x W + h R + b)."""
    layer = _layer(op)
    return layer.answers(f"rnn({layer.x}, {layer.weights}, {layer.state(5)}{layer.options()})")


@writes("GRU", since=7, T=FLOATS)
def gru(op: Op) -> Written:
    """Two gates; PyTorch has the one that resets after the product."""
    layer, late = _layer(op), op.flag("linear_before_reset")
    if late and layer.plain:
        return layer.answers(f"torch_gru({layer.x}, {layer.weights}, {layer.state(5)}{layer.options()})")
    return layer.answers(f"gru({layer.x}, {layer.weights}, {layer.state(5)}, {late}{layer.options()})")


@writes("LSTM", since=7, T=FLOATS)
def lstm(op: Op) -> Written:
    """Three gates, and a state of its own."""
    layer, coupled, peepholes = _layer(op), op.flag("input_forget"), op.optional(7)
    given = f"{layer.x}, {layer.weights}, {layer.state(5)}, {layer.state(6)}"
    if layer.plain and not coupled and peepholes is None:
        return layer.answers(f"torch_lstm({given}{layer.options()})")
    more = [f"peepholes={peepholes}"] if peepholes is not None else []
    return layer.answers(f"lstm({given}{layer.options(*more, *(['coupled=True'] if coupled else []))})")
