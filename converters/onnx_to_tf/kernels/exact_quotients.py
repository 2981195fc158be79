"""Quotients that are rounded once. Of a division by a constant TensorFlow's optimiser and TFLite's converter make a
product with its reciprocal, which is a bit off: nothing to see, until something is rounded down. Of 7 / 7 it is 0 then.
"""

from __future__ import annotations

from operator import is_

from ..lazy_tensorflow import tf
from ..values import TfTensor

_THROUGH = {  # as in floor(x / y + 0.5), or the places of a line: start + (end - start) / steps * at
    "AddV2": "add", "Maximum": "maximum", "Minimum": "minimum", "Mul": "multiply", "Neg": "negative",
    "SelectV2": "where", "Sub": "subtract",
}  # fmt: skip
_FAR = 6  # operators between a quotient and what rounds


def quotient(x: TfTensor, y: TfTensor) -> TfTensor:
    """The quotient, where y is a constant that TensorFlow's optimiser must not know: it looks behind no placeholder."""
    if tf.executing_eagerly():
        return x / y
    return x / tf.compat.v1.placeholder_with_default(y, y.shape)


def before_rounding(x: TfTensor, far: int = _FAR) -> TfTensor:
    """What is rounded next, in TFLite: a quotient by what its converter cannot know, for it depends on the dividend."""
    if not tf.is_symbolic_tensor(x) or not far:
        return x
    if x.op.type in _THROUGH:
        given = list(x.op.inputs)
        made = [before_rounding(each, far - 1) for each in given]
        return x if all(map(is_, made, given)) else getattr(tf, _THROUGH[x.op.type])(*made)
    if x.op.type != "RealDiv":
        return x
    dividend, divisor = x.op.inputs
    least = tf.minimum(tf.abs(divisor), tf.abs(dividend) + tf.abs(divisor))
    return dividend / tf.where(divisor < 0, -least, least)
