"""Modules that another interpreter runs, with a user's own torch or TensorFlow, in Python 3.9 and later."""
