"""Quotients that are rounded once.

TensorFlow's optimiser and TFLite's converter turn a division by a constant into a product with its reciprocal, which is
a bit off. That shows as soon as something is rounded down: 7 / 7 becomes 0 then.
"""

from __future__ import annotations

from operator import is_

from ..lazy_tensorflow import tf
from ..values import TfTensor

_THROUGH = {  # as in floor(x / y + 0.5), or along a line: start + (end - start) / steps * at
    "AddV2": "add", "Maximum": "maximum", "Minimum": "minimum", "Mul": "multiply", "Neg": "negative",
    "SelectV2": "where", "Sub": "subtract",
}  # fmt: skip
_DEPTH = 6  # operators between a quotient and what rounds


def divide_exactly(x: TfTensor, y: TfTensor) -> TfTensor:
    """Return x / y, where y is a constant that TensorFlow's optimiser must not see: it looks behind no placeholder."""
    if tf.executing_eagerly():
        return x / y
    return x / tf.compat.v1.placeholder_with_default(y, y.shape)


def guard_quotients(x: TfTensor, depth: int = _DEPTH) -> TfTensor:
    """Rewrite the quotients in what TFLite rounds next: the new divisors depend on the dividend, so stay unknown."""
    if not tf.is_symbolic_tensor(x) or not depth:
        return x
    if x.op.type in _THROUGH:
        inputs = list(x.op.inputs)
        exact = [guard_quotients(operand, depth - 1) for operand in inputs]
        return x if all(map(is_, exact, inputs)) else getattr(tf, _THROUGH[x.op.type])(*exact)
    if x.op.type != "RealDiv":
        return x
    dividend, divisor = x.op.inputs
    least = tf.minimum(tf.abs(divisor), tf.abs(dividend) + tf.abs(divisor))
    return dividend / tf.where(divisor < 0, -least, least)


def truncated_remainder(a: TfTensor, b: TfTensor) -> TfTensor:
    """Return the remainder of integers with the sign of a: from the one with the sign of b, which differs by b."""
    rest = tf.math.floormod(a, b)
    differs = tf.logical_and(tf.not_equal(rest, 0), tf.not_equal(a < 0, rest < 0))
    return tf.where(differs, rest - b, rest)
