"""A model that lives in another interpreter, with that interpreter's own torch or TensorFlow."""
