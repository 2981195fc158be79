"""Small networks of different shapes, each by its own name: net_0, net_1 and so on. Untrained, from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

_ACTIVATIONS = (nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU)


def _make(number: int) -> nn.Module:
    torch.manual_seed(number)
    width = 8 * (1 + number % 7)
    layers: list[nn.Module] = [nn.Linear(16, width), _ACTIVATIONS[number % len(_ACTIVATIONS)]()]
    for _ in range(number % 3):
        layers += [nn.Linear(width, width), nn.LayerNorm(width)]
    return nn.Sequential(*layers, nn.Linear(width, 4)).eval()


def __getattr__(name: str) -> Callable[[], nn.Module]:
    prefix, _, number = name.partition("_")
    if prefix != "net" or not number.isdigit():
        raise AttributeError(name)
    return lambda: _make(int(number))
