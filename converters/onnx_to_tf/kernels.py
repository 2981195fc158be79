"""What TensorFlow and TFLite have different kernels for.

An operator's function is written once. Where TFLite has no kernel for what TensorFlow would call, the function calls
`op.kernels.NAME(...)`: `Kernels` is TensorFlow's own, `TFLiteKernels` an equivalent in what TFLite has. An operator
whose TensorFlow function TFLite takes as it is calls `tf` itself.
"""

from __future__ import annotations

from .lazy import tf
from .values import TfTensor


class Kernels:
    """TensorFlow's own."""

    name = "TensorFlow"

    def erf(self, x: TfTensor) -> TfTensor:
        """The error function of a float tensor, in its shape."""
        return tf.math.erf(x)


class TFLiteKernels(Kernels):
    """Equivalents that need no operators of TensorFlow (Flex), in float32 where nothing else is said."""

    name = "TFLite"

    def erf(self, x: TfTensor) -> TfTensor:
        """As x P(x^2) / Q(x^2) on [-4, 4], beyond which it is 1 to the last bit of float32; Eigen's coefficients."""
        clamped = tf.clip_by_value(x, -4.0, 4.0)
        square = clamped * clamped
        return clamped * _polynomial(square, _ERF_P) / _polynomial(square, _ERF_Q)


# Highest power first. Eigen, unsupported/Eigen/src/SpecialFunctions: the rational approximation for float.
_ERF_P = (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
    -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
)  # fmt: skip
_ERF_Q = (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
          -1.42647390514189e-02)  # fmt: skip


def _polynomial(x: TfTensor, coefficients: tuple[float, ...]) -> TfTensor:
    """By Horner's rule; the highest power's coefficient first."""
    answer = tf.fill(tf.shape(x), tf.constant(coefficients[0], x.dtype))
    for coefficient in coefficients[1:]:
        answer = answer * x + coefficient
    return answer


TENSORFLOW = Kernels()
TFLITE = TFLiteKernels()
