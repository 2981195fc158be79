"""Operators of PyTorch as ONNX for torch's dynamo exporter, and where it stops, in a sentence."""
