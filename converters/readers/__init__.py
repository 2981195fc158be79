"""Read and check the model files that a user brings: one module per format, and take_in.py over them."""
