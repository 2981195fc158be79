"""The two dialects that a model can be lowered to."""

from __future__ import annotations

from .tensorflow_kernels import Kernels
from .tflite_kernels import TFLiteKernels

__all__ = ["TENSORFLOW", "TFLITE", "Kernels", "TFLiteKernels"]

TENSORFLOW = Kernels()
TFLITE = TFLiteKernels()
