"""Symbolic functions that torch's TorchScript-based ONNX exporter lacks or has wrong."""
