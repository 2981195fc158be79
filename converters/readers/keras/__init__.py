"""Files of strangers: Keras."""
