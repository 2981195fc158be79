"""Conversion steps whose target is ONNX, and the repairs that their output needs."""
