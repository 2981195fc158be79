"""Every change to the behaviour of a third-party library: torch's exporters and tf2onnx."""
