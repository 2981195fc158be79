"""tf.Examples: what TF Serving's Classify, Regress and MultiInference take instead of tensors."""
