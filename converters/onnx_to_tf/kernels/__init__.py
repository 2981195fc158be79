"""What TensorFlow and TFLite have different kernels for.

An operator's function is written once. Where TFLite has no kernel for what TensorFlow would call, the function calls
`op.kernels.NAME(...)`: `Kernels` (tensorflow.py) is TensorFlow's own, `TFLiteKernels` (tflite.py) an equivalent in what
TFLite has. An operator whose TensorFlow function TFLite takes as it is calls `tf` itself.

What an equivalent needs lies by meaning in modules beside: functions.py (elementary functions of float32), integers.py
(division and bits of integers), quotients.py (what an optimiser would make less exact), running.py (products and
extremes along axes), scatters.py, matrices.py, spectral.py, boxes.py, and piles.py (what the steps of a loop make).
"""

from .tensorflow_kernels import Kernels
from .tflite_kernels import TFLiteKernels

__all__ = ["TENSORFLOW", "TFLITE", "Kernels", "TFLiteKernels"]

TENSORFLOW = Kernels()
TFLITE = TFLiteKernels()
