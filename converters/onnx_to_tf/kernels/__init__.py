"""The dialects: the operations that TensorFlow and TFLite have different kernels for.

An operator's function is written once. Where TFLite has no kernel for what TensorFlow would call, the function calls
`op.kernels.NAME(...)`: `Kernels` (tensorflow_kernels.py) is TensorFlow's own, `TFLiteKernels` (tflite_kernels.py) an
equivalent in what TFLite has. An operator whose TensorFlow function TFLite takes as it is calls `tf` itself.

What an equivalent needs lies by meaning in modules beside: tflite_functions.py (elementary functions of float32),
tflite_integers.py (division and bits of integers), tflite_reductions.py (products, extremes and scatters),
tflite_matrices.py, tflite_boxes.py and loop_outputs.py. exact_quotients.py (what an optimiser would make less exact),
tflite_reshapes.py and converter_safe.py serve both dialects.
"""
