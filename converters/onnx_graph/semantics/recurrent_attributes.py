"""RNN, GRU and LSTM: directions, hidden size, activations with their numbers, and the layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..node_reader import NodeReader, S, V

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
DEFAULT_ACTIVATIONS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}

# What an activation takes of activation_alpha and activation_beta, with the defaults of the operators of these names.
# Where a default is None the model must give the number.
ACTIVATION_NUMBERS: dict[str, tuple[float | None, ...]] = {
    "affine": (None, None),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "relu": (),
    "scaledtanh": (None, None),
    "sigmoid": (),
    "softplus": (),
    "softsign": (),
    "tanh": (),
    "thresholdedrelu": (1.0,),
}


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation by its name in lower case, and what it takes of activation_alpha and activation_beta."""

    name: str
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class RecurrentAttributes:
    """What the three recurrent operators have in common."""

    hidden: int
    backwards: tuple[bool, ...]  # by direction
    activations: tuple[tuple[Activation, ...], ...]  # by direction
    clip: float | None  # the inputs of activations are cut to -clip .. clip
    batch_first: bool

    @property
    def usual(self) -> bool:
        """Whether the activations are the operator's defaults, unclipped."""
        names = {tuple(it.name.title() for it in activations) for activations in self.activations}
        return self.clip is None and names <= set(DEFAULT_ACTIVATIONS.values())


def recurrent_attributes(op: NodeReader[V, S], hidden_axis: int = -1) -> RecurrentAttributes:
    """Read a recurrent operator; R has a place for each hidden element along `hidden_axis`."""
    backwards = _DIRECTIONS[op.word("direction", "forward", tuple(_DIRECTIONS))]
    shape = op.value(2).shape
    hidden = op.integer("hidden_size", shape[hidden_axis] or 0)
    if shape[hidden_axis] != hidden or shape[0] != len(backwards):
        op.refuse(f"its weights have the shape {shape}, with hidden_size {hidden}", fix="check the model")
    clip = op.real("clip") if op.has("clip") else None
    return RecurrentAttributes(hidden, backwards, _activations(op, len(backwards)), clip, op.flag("layout"))


def _activations(op: NodeReader[V, S], directions: int) -> tuple[tuple[Activation, ...], ...]:
    """Read the activations by direction; alpha and beta go in order to those that take them."""
    defaults = DEFAULT_ACTIVATIONS[op.op_type]
    # The specification's own default for RNN names two activations, also where there is one direction.
    names = op.strings("activations") if op.has("activations") else [*defaults] * directions
    sources = [iter(op.floats(name, ())) for name in ("activation_alpha", "activation_beta")]
    activations = [_activation(op, name.lower(), sources) for name in names]
    if [number for source in sources for number in source]:  # meant for an activation that takes none
        op.refuse(f"its activations {', '.join(names)} do not take all of activation_alpha and activation_beta")
    count = len(defaults)
    if len(activations) != count * directions:
        op.refuse(f"it has {len(activations)} activations", fix=f"give {count} for each direction")
    return tuple(tuple(activations[at : at + count]) for at in range(0, len(activations), count))


def _activation(op: NodeReader[V, S], name: str, sources: Sequence[Iterator[float]]) -> Activation:
    if name not in ACTIVATION_NUMBERS:
        op.refuse(f"no activation is called {name!r}", fix=f"use one of {', '.join(ACTIVATION_NUMBERS)}")
    numbers = [next(it, default) for it, default in zip(sources, ACTIVATION_NUMBERS[name], strict=False)]
    if None in numbers:
        op.refuse(f"its activation {name} needs activation_alpha and activation_beta", fix="give both")
    return Activation(name, tuple(number for number in numbers if number is not None))
