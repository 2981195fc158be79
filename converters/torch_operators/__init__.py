"""Operators of PyTorch as ONNX: what torch's two exporters lack, or have wrong."""
