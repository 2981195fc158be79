"""Faults of samples and labels: how they are found, and which of them a command refuses or doubts."""
