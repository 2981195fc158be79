"""Conversion steps whose target is pt2 or TorchScript, and the reasons why a model cannot be captured."""
