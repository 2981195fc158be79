"""Weights for the benchmark's models: random with a fixed seed, and shaped as training leaves them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import nn


def seeded(module: nn.Module, seed: int) -> nn.Module:
    """Fill weights and running statistics from a fixed seed, and return the module in eval mode.

    Normalisations get scales around 1, biases and running means that are not zero, and variances from 0.02 up, so that
    a lost statistic, bias or epsilon changes the answers.
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(like: torch.Tensor, low: float, high: float) -> torch.Tensor:
        return torch.rand(like.shape, generator=generator) * (high - low) + low

    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            leaf = name.rsplit(".", 1)[-1]
            if not tensor.is_floating_point() or leaf.startswith("fixed"):
                continue
            if leaf == "running_var":
                tensor.copy_(uniform(tensor, 0.02, 1.5))
            elif leaf == "running_mean" or "bias" in leaf:
                tensor.copy_(uniform(tensor, -0.4, 0.4))
            elif tensor.dim() == 1:
                tensor.copy_(uniform(tensor, 0.6, 1.4))
            else:
                fan_in = max(1, tensor[0].numel()) if "weight_" not in leaf else tensor.shape[-1]
                scale = 1.0 if isinstance(_owner(module, name), nn.Embedding) else (1.6 / fan_in) ** 0.5
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * scale)
    return module.eval()


def seeds(seed: int) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Return a decorator of a class whose modules get weights from a seed as they are made."""

    def decorate(of_class: type[nn.Module]) -> type[nn.Module]:
        plain = of_class.__init__

        @wraps(plain)
        def init(self: nn.Module, *arguments: Any) -> None:
            plain(self, *arguments)
            if type(self) is of_class:
                seeded(self, seed)

        of_class.__init__ = init  # type: ignore[assignment]
        return of_class

    return decorate


def _owner(module: nn.Module, name: str) -> nn.Module:
    return module.get_submodule(name.rpartition(".")[0])
