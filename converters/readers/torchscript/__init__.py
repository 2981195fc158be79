"""Files of strangers: TorchScript."""
