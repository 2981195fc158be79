"""Padding of whole tensors. That of convolutions and pools lies with them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..lazy import tf
from ..reader import Op
from ..registry import ANY, FLOATS, INDICES, lowers
from ..values import TfTensor, Value, computed

_MODES = ("constant", "reflect", "edge")


@lowers("Pad", since=18, T=ANY, Tind=INDICES)
def pad_some_axes(op: Op) -> Value:
    """Before and after each of the axes named, or of all; negative pads cut."""
    value = op.value(0)
    axes = range(value.rank) if op.optional(3) is None else op.integers(3, "axes")
    return _padded(op, list(op.integers(1, "pads")), [axis % value.rank for axis in axes], op.optional(2))


@lowers("Pad", since=11, until=17, T=ANY)
def pad(op: Op) -> Value:
    """Before and after each axis."""
    return _padded(op, list(op.integers(1, "pads")), list(range(op.value(0).rank)), op.optional(2))


@lowers("Pad", since=2, until=10, T=FLOATS)
def pad_by_attributes(op: Op) -> Value:
    """Before opset 11 pads and number were attributes."""
    value = op.value(0)
    number = op.known(np.array(op.real("value", 0.0), value.dtype))
    return _padded(op, op.ints("pads"), list(range(value.rank)), number)


def _padded(op: Op, pads: list[int], axes: list[int], number: Value | None) -> Value:
    value, mode = op.value(0), op.word("mode", "constant", _MODES)
    native = value.tensor(value.layout)
    widths = [(0, 0)] * value.rank
    for at, axis in enumerate(axes):
        widths[value.place(axis)] = (pads[at], pads[at + len(axes)])
    native = _cut(native, widths)
    widths = [(max(low, 0), max(high, 0)) for low, high in widths]
    if any(low or high for low, high in widths):
        native = _MODE[mode](native, widths, number)
    return computed(native, value.layout)


def _cut(tensor: TfTensor, widths: list[tuple[int, int]]) -> TfTensor:
    """What negative pads take away."""
    if all(low >= 0 and high >= 0 for low, high in widths):
        return tensor
    return tensor[tuple(slice(max(-low, 0), high if high < 0 else None) for low, high in widths)]


def _constant(tensor: TfTensor, widths: list[tuple[int, int]], number: Value | None) -> TfTensor:
    if number is None or (number.array is not None and not number.array.any()):
        return tf.pad(tensor, widths)
    return tf.pad(tensor, widths, constant_values=tf.reshape(number.tensor(), []))


def _reflect(tensor: TfTensor, widths: list[tuple[int, int]], _number: Value | None) -> TfTensor:
    return tf.pad(tensor, widths, mode="REFLECT")


def _edge(tensor: TfTensor, widths: list[tuple[int, int]], _number: Value | None) -> TfTensor:
    for axis, (low, high) in enumerate(widths):
        first = tf.repeat(tf.gather(tensor, [0], axis=axis), low, axis=axis)
        last = tf.repeat(tensor[(*[slice(None)] * axis, slice(-1, None))], high, axis=axis)
        parts = [*([first] if low else []), tensor, *([last] if high else [])]
        tensor = tf.concat(parts, axis) if len(parts) > 1 else tensor
    return tensor


_MODE: dict[str, Callable[[TfTensor, list[tuple[int, int]], Value | None], TfTensor]] = {
    "constant": _constant,
    "reflect": _reflect,
    "edge": _edge,
}
