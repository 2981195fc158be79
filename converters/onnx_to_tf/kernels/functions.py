"""Elementary functions of float32 in the operators that TFLite has."""

from __future__ import annotations

from ..lazy import tf
from ..values import TfTensor


def erf(x: TfTensor) -> TfTensor:
    """As x P(x^2) / Q(x^2) on [-4, 4], beyond which it is 1 to the last bit of float32; Eigen's coefficients."""
    clamped = tf.clip_by_value(x, -4.0, 4.0)
    square = clamped * clamped
    return clamped * polynomial(square, _ERF_P) / polynomial(square, _ERF_Q)


# Highest power first. Eigen, unsupported/Eigen/src/SpecialFunctions: the rational approximation for float.
_ERF_P = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
    -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
)  # fmt: skip
_ERF_Q = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
          -1.42647390514189e-02)  # fmt: skip


def polynomial(x: TfTensor, coefficients: tuple[float, ...]) -> TfTensor:
    """By Horner's rule; the highest power's coefficient first."""
    answer = x * coefficients[0] + coefficients[1]
    for coefficient in coefficients[2:]:
        answer = answer * x + coefficient
    return answer
