"""Checkpoints of others, read as data: nothing that a file names is imported or called."""
