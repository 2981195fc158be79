"""Computations that several ONNX operator families share when written as PyTorch code."""
