"""How a file of PyTorch is called."""

from __future__ import annotations

from .format_spec import Snippet


def torch_snippet(loaded: str) -> Snippet:
    """Return the program that calls a model; `loaded` is the expression that loads it from {file}."""
    text = f"""import torch
inputs = {{inputs}}
model = {loaded}
with torch.inference_mode():
    outputs = dict(zip({{names}}, {{answers}}))
"""
    return Snippet("torch.full({shape}, {value}, dtype=torch.{dtype})", text, call="model(*inputs.values())")
