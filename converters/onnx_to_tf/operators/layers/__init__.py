"""Layers of neural networks: convolution, pooling, normalisation, recurrence, attention."""
