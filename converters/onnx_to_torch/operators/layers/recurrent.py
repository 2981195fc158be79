"""Recurrent layers: RNN, GRU and LSTM, in both directions, with initial states, lengths and every activation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...operator_context import Op
from ...safe_names import number
from ...statements import tupled
from ...writers import FLOATS, Written, writes

# What an activation takes of activation_alpha and activation_beta, with the defaults of the operators of these names;
# where a default is None the model must give the number.
_ACTIVATIONS: dict[str, tuple[tuple[float | None, ...], str]] = {
    "affine": ((None, None), "{0} * {t} + {1}"),
    "elu": ((1.0,), "F.elu({t}, {0})"),
    "hardsigmoid": ((0.2, 0.5), "torch.clamp({0} * {t} + {1}, 0, 1)"),
    "leakyrelu": ((0.01,), "F.leaky_relu({t}, {0})"),
    "relu": ((), "torch.relu({t})"),
    "scaledtanh": ((None, None), "{0} * torch.tanh({1} * {t})"),
    "sigmoid": ((), "torch.sigmoid({t})"),
    "softplus": ((), "F.softplus({t}, threshold=40)"),
    "softsign": ((), "F.softsign({t})"),
    "tanh": ((), "torch.tanh({t})"),
    "thresholdedrelu": ((1.0,), "torch.where({t} > {0}, {t}, torch.zeros_like({t}))"),
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


def _layer(op: Op, defaults: Sequence[str]) -> Layer:
    backwards = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[
        op.word("direction", "forward", ("forward", "reverse", "bidirectional"))
    ]
    given, w, r, b = op.value(0), op.value(1), op.value(2), op.optional(3)
    hidden = op.integer("hidden_size", r.shape[-1] or 0)
    if r.shape[-1] != hidden or r.shape[0] != len(backwards):
        op.refuse(f"its weights have the shape {r.shape}, with hidden_size {hidden}", fix="check the model")
    batch_first = op.flag("layout")
    x = f"{op.let(f'{given}.transpose(0, 1)', 'steps_first')}" if batch_first else f"{given}"
    zeros = op.known(np.zeros((len(backwards), 2 * (r.shape[1] or 0)), given.dtype))
    lengths = op.optional(4)
    if lengths is not None and lengths.array is not None and given.shape[1 if batch_first else 0] is not None:
        lengths = None if (lengths.array == given.shape[1 if batch_first else 0]).all() else lengths
    activations = _activations(op, defaults, len(backwards))
    return Layer(
        op, hidden, backwards, x, f"{w}, {r}, {zeros if b is None else b}",
        None if lengths is None else f"{lengths}", activations, batch_first,
    )  # fmt: skip


def _activations(op: Op, defaults: Sequence[str], directions: int) -> str | None:
    """A tuple of functions, of every direction in turn; alpha and beta are handed out in order to those that take
    them. None where they are as usual."""
    usual = [*defaults] * directions
    names = [each.lower() for each in op.strings("activations", usual)]
    numbers = [iter(op.floats("activation_alpha", ())), iter(op.floats("activation_beta", ()))]
    bound = op.real("clip") if op.has("clip") else None
    made = [_activation(op, name, numbers, bound) for name in names]
    if [each for source in numbers for each in source]:  # meant for one that takes none
        op.refuse("its activations do not take all of activation_alpha and activation_beta")
    if len(made) != len(usual):
        op.refuse(f"it has {len(made)} activations", fix=f"give {len(defaults)} for each direction")
    if bound is None and names == [each.lower() for each in usual]:
        return None
    return tupled(made)


def _activation(op: Op, name: str, numbers: Sequence[Iterator[float]], bound: float | None) -> str:
    if name not in _ACTIVATIONS:
        op.refuse(f"no activation is called {name!r}", fix=f"use one of {', '.join(_ACTIVATIONS)}")
    defaults, code = _ACTIVATIONS[name]
    given = [next(source, default) for source, default in zip(numbers, defaults, strict=False)]
    if None in given:
        op.refuse(f"its activation {name} needs activation_alpha and activation_beta", fix="give both")
    limit = "" if bound is None else number(bound)
    clipped = f"torch.clamp(t, -{limit}, {limit})" if limit else "t"
    body = code.format(*(f"({number(each)})" for each in given if each is not None), t=clipped)
    return f"lambda t: {body}"


@writes("RNN", since=7, T=FLOATS)
def rnn(op: Op) -> Written:
    """One activation: h' = f(x W + h R + b)."""
    layer = _layer(op, ["Tanh"])
    return layer.answers(f"rnn({layer.x}, {layer.weights}, {layer.state(5)}{layer.options()})")


@writes("GRU", since=7, T=FLOATS)
def gru(op: Op) -> Written:
    """Two gates; PyTorch has the one that resets after the product."""
    layer, late = _layer(op, ["Sigmoid", "Tanh"]), op.flag("linear_before_reset")
    if late and layer.plain:
        return layer.answers(f"torch_gru({layer.x}, {layer.weights}, {layer.state(5)}{layer.options()})")
    return layer.answers(f"gru({layer.x}, {layer.weights}, {layer.state(5)}, {late}{layer.options()})")


@writes("LSTM", since=7, T=FLOATS)
def lstm(op: Op) -> Written:
    """Three gates, and a state of its own."""
    layer, coupled, peepholes = _layer(op, ["Sigmoid", "Tanh", "Tanh"]), op.flag("input_forget"), op.optional(7)
    given = f"{layer.x}, {layer.weights}, {layer.state(5)}, {layer.state(6)}"
    if layer.plain and not coupled and peepholes is None:
        return layer.answers(f"torch_lstm({given}{layer.options()})")
    more = [f"peepholes={peepholes}"] if peepholes is not None else []
    return layer.answers(f"lstm({given}{layer.options(*more, *(['coupled=True'] if coupled else []))})")
