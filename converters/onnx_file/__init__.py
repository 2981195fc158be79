"""ONNX files: exported, mended, in reduced precision, and made of TensorFlow's."""
