"""Handlers of TensorFlow operators that tf2onnx lacks or converts wrongly."""
