"""Operators of PyTorch as ONNX for torch's older exporter, which reads TorchScript."""
