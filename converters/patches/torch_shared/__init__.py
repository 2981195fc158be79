"""Formulas shared by the patches of torch's two ONNX exporters."""
