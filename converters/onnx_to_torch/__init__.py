"""ONNX to PyTorch: a readable module, its weights beside it, and the exported program made of it."""
