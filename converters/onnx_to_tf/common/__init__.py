"""Computations that several ONNX operator families share when lowered to TensorFlow."""
