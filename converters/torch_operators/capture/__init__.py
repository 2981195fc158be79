"""PyTorch under other definitions, for as long as torch.export captures a model or a trace does."""
