"""PyTorch's own formats, pt2 and TorchScript: exported, traced or compiled, and why a model cannot be."""
