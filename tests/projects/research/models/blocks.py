"""Building blocks."""

from __future__ import annotations

import torch
from torch import nn


class Squeeze(nn.Module):
    """Channels weighed by what the whole image says."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(nn.Conv2d(width, width // 2, 1), nn.SiLU(), nn.Conv2d(width // 2, width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.gate(x.mean((2, 3), keepdim=True)))


class Stage(nn.Module):
    """Halves the image."""

    def __init__(self, taken: int, given: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(taken, given, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(given)
        self.squeeze = Squeeze(given)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.squeeze(nn.functional.hardswish(self.norm(self.conv(x))))
