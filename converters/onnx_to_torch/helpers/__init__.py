"""What the generated module calls where PyTorch has no single call for an operator. Their text is pasted into it."""
