"""Read and check the model files that a user brings: one module per format, and artifact_import.py over them."""
