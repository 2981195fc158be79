"""Operators of TensorFlow as ONNX: what tf2onnx lacks, or has wrong."""
