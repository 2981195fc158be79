"""Elementary functions of float32 in the operators that TFLite has.

Each is right to a few units in the last place where nothing else is said. The formulas are those of Kahan, "Branch cuts
for complex elementary functions" (1987), and of Cody and Waite, "Software manual for the elementary functions" (1980).

XNNPACK's log is exact to an absolute error near 1, and not to a relative one: functions that need more have a series
there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

from ..lazy_tensorflow import tf
from ..values import TfTensor
from .exact_quotients import guard_quotients

_LARGE = 2.0**13  # the square of a larger number exceeds 1 by more than float32 can tell
_LN2 = log(2)


def erf(x: TfTensor) -> TfTensor:
    """Return x P(x^2) / Q(x^2) on [-4, 4], beyond which float32's erf is 1; Eigen's coefficients, within 4e-7."""
    clamped = tf.clip_by_value(x, -4.0, 4.0)
    square = clamped * clamped
    return clamped * polynomial(square, _ERF_P) / polynomial(square, _ERF_Q)


def asin(x: TfTensor) -> TfTensor:
    """Return the angle whose sine is x and whose cosine is sqrt((1 - x) (1 + x)); NaN outside of [-1, 1]."""
    return tf.atan2(x, tf.sqrt((1.0 - x) * (1.0 + x)))


def acos(x: TfTensor) -> TfTensor:
    """Return twice the angle whose tangent is sqrt((1 - x) / (1 + x)); NaN outside of [-1, 1]."""
    return 2.0 * tf.atan2(tf.sqrt(1.0 - x), tf.sqrt(1.0 + x))


def expm1(x: TfTensor) -> TfTensor:
    """Return exp(x) - 1. TFLite's ELU is it below 0; above, exp(x) - 1 = exp(x) (1 - exp(-x))."""
    return tf.where(x < 0, tf.nn.elu(x), -tf.exp(x) * tf.nn.elu(-tf.abs(x)))


def log1p(x: TfTensor) -> TfTensor:
    """Return log(1 + x): 2 atanh(x / (2 + x)) by its series near 0."""
    s = x / (2.0 + x)
    near = 2.0 * s * polynomial(s * s, _ATANH)
    return tf.where(tf.abs(x) < 0.4, near, tf.math.log(1.0 + x))


def sinh(x: TfTensor) -> TfTensor:
    """Return exp|x| (1 - exp(-2 |x|)) / 2 with x's sign; exp|x| in two halves, for it alone would overflow."""
    size = tf.abs(x)
    half = tf.exp(size * 0.5)
    return tf.sign(x) * (half * (-0.5 * tf.nn.elu(-2.0 * size)) * half)


def cosh(x: TfTensor) -> TfTensor:
    """Return (exp|x| + exp(-|x|)) / 2, exp|x| in two halves, for it alone would overflow."""
    half = tf.exp(tf.abs(x) * 0.5)
    return (half * 0.5) * half + 0.5 * tf.exp(-tf.abs(x))


def asinh(x: TfTensor) -> TfTensor:
    """Return log1p(|x| + x^2 / (1 + sqrt(1 + x^2))) with x's sign, and log(2 |x|) where x is large."""
    size = tf.abs(x)
    small = tf.minimum(size, _LARGE)
    square = small * small
    near = log1p(small + square / (1.0 + tf.sqrt(1.0 + square)))
    return tf.sign(x) * tf.where(size < _LARGE, near, tf.math.log(size) + _LN2)


def acosh(x: TfTensor) -> TfTensor:
    """Return log1p(t + sqrt(2 t + t^2)) with t = x - 1, and log(2 x) where x is large; NaN below 1."""
    t = tf.minimum(x, _LARGE) - 1.0
    return tf.where(x < _LARGE, log1p(t + tf.sqrt(t * (2.0 + t))), tf.math.log(x) + _LN2)


def atanh(x: TfTensor) -> TfTensor:
    """Return (log1p(x) - log1p(-x)) / 2; infinite at -1 and 1, NaN beyond."""
    return 0.5 * (log1p(x) - log1p(-x))


def softplus(x: TfTensor) -> TfTensor:
    """Return log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|)), which overflows nowhere."""
    return tf.nn.relu(x) + log1p(tf.exp(-tf.abs(x)))


def polynomial(x: TfTensor, coefficients: Sequence[float]) -> TfTensor:
    """Evaluate a polynomial by Horner's rule; the highest power's coefficient first."""
    total = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        total = total * x + coefficient
    return total


# Highest power first. Eigen, unsupported/Eigen/src/SpecialFunctions: the rational approximation for float.
_ERF_P = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
    -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
)  # fmt: skip
_ERF_Q = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
          -1.42647390514189e-02)  # fmt: skip
_ATANH = tuple(1 / (2 * power + 1) for power in range(7, -1, -1))  # atanh(s) / s by powers of s^2; |s| is below 1/4

FUNCTIONS: dict[str, Callable[[TfTensor], TfTensor]] = {
    "acos": acos, "acosh": acosh, "asin": asin, "asinh": asinh, "atanh": atanh, "cosh": cosh, "math.erf": erf,
    "math.softplus": softplus, "sinh": sinh,
    "atan": lambda x: tf.atan2(x, tf.ones_like(x)),  # the angle of the point (1, x)
    "floor": lambda x: tf.floor(guard_quotients(x)), "math.ceil": lambda x: tf.math.ceil(guard_quotients(x)),
    "math.is_inf": lambda x: tf.abs(x) > x.dtype.max,  # the converter makes the largest number of a constant infinity
    "round": lambda x: tf.round(guard_quotients(x)), "tan": lambda x: tf.sin(x) / tf.cos(x),
}  # fmt: skip
