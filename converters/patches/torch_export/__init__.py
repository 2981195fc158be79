"""Replacements of PyTorch functions while torch.export captures a model or a trace records it."""
