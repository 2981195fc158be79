"""Files of strangers: exported programs of PyTorch."""
