"""Files of strangers: ONNX."""
