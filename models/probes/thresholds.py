"""Numbers that a graph compares its values with: limits, thresholds and epsilons, and the tails of activations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ..signature import Array

_COMPARISONS = frozenset((
    "greater", "greaterorequal", "greater_equal", "less", "lessorequal", "less_equal", "equal", "not_equal", "notequal",
    "gt", "ge", "lt", "le", "eq", "ne", "clip", "clipbyvalue", "clamp", "clamp_min", "clamp_max", "hardtanh",
    "threshold", "maximum", "minimum", "max", "min",
))  # fmt: skip
_CORNERS: Mapping[str, Sequence[float]] = {
    "relu6": (0, 6), **dict.fromkeys(("hardsigmoid", "hardswish", "hard_sigmoid", "hard_swish"), (-3, 3)),
}  # fmt: skip
_TAILED = frozenset((
    "sigmoid", "logistic", "log_sigmoid", "logsigmoid", "softplus", "exp", "tanh", "erf", "gelu", "silu", "elu", "mish",
))  # fmt: skip
TAILS = (-100.0, -50.0, -20.0, 20.0, 50.0, 100.0)  # where runtimes and exporters compute an activation in other forms
_SPREADS = frozenset(("layer_norm", "layernormalization", "native_layer_norm", "rms_norm", "rmsnormalization"))
_ADDITIONS = frozenset(("add",))
_EPSILON = 1e-2  # up to which a number that is added is one
_MOST_NUMBERS = 8  # of one operator: a tensor of more is a weight


class Threshold(NamedTuple):
    """A number, and the place in a graph where a value is compared with it."""

    place: str
    constant: float


# Told of an operator: its place, its kind, the values that it reads, the numbers among its arguments.
Hear: TypeAlias = Callable[[str, str, Sequence[Array], Sequence[float]], None]
Extremes: TypeAlias = Mapping[Threshold, tuple[Array, Array]]  # least and most of the compared value, row by row


def is_compared(kind: str) -> bool:
    """Return whether an operator of this kind may compare values with numbers; the kind is any format's name of it."""
    plain = _plain(kind)
    return plain in _COMPARISONS or plain in _CORNERS or plain in _TAILED or plain in _SPREADS or plain in _ADDITIONS


def measure_operator(
    place: str, kind: str, values: Sequence[Array], numbers: Sequence[float], rows: int
) -> Iterator[tuple[Threshold, tuple[Array, Array]]]:
    """Yield each number that an operator compares a value with, and the extremes of the value in each row of a call.
    `numbers`: among its arguments. Of a normalisation the value is the variance that its epsilon is added to."""
    thresholds = _thresholds(_plain(kind), numbers)
    for at, value in enumerate(values if thresholds else ()):
        if value.dtype.kind not in "fiu" or not value.size:
            continue
        by_row = value.astype(np.float64)
        if _plain(kind) in _SPREADS:
            by_row = by_row.var(-1)
        by_row = by_row.reshape(rows, -1) if value.ndim and len(value) == rows else by_row.reshape(1, -1)
        by_row = np.where(np.isfinite(by_row), by_row, np.nan)
        least, most = (np.broadcast_to(end.reduce(by_row, axis=1), rows) for end in (np.fmin, np.fmax))
        yield from ((Threshold(f"{place}.{at}", number), (least, most)) for number in thresholds)


def constant_numbers(arrays: Iterable[Array]) -> list[float]:
    """Return the numbers of small constants; none of tensors that are weights."""
    small = (array for array in arrays if array.size <= _MOST_NUMBERS and array.dtype.kind in "fiu")
    return [float(number) for array in small for number in array.reshape(-1)]


def _thresholds(plain: str, numbers: Sequence[float]) -> Sequence[float]:
    finite = sorted({number for number in numbers if np.isfinite(number)})[:_MOST_NUMBERS]
    if plain in _ADDITIONS or plain in _SPREADS:
        return [number for number in finite if 0 < number <= _EPSILON]
    return finite if plain in _COMPARISONS else _CORNERS.get(plain, TAILS if plain in _TAILED else ())


def _plain(kind: str) -> str:
    return re.sub(r"^aten::|(?<=[a-z])v\d+$|_$", "", kind.lower())
