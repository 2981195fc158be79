"""Our own lowering: an ONNX model as a tf.function, one small function per operator."""
