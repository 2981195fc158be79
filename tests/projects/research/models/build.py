"""The net, and how it is made from a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import nn

from .blocks import Stage
from .config import NetConfig


@dataclass
class Found:
    """What the net says of an image. `heat` is half as large as the image."""

    scores: torch.Tensor
    heat: torch.Tensor


class LeafNet(nn.Module):
    """A small encoder with a heat map."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        widths = (3, *config.widths)
        self.stages = nn.ModuleList(Stage(*pair) for pair in pairwise(widths))
        self.heat = nn.Conv2d(sum(config.widths), 1, 1)
        self.dropout = nn.Dropout(config.dropout)
        self.scores = nn.Linear(widths[-1], config.classes)

    def forward(self, image: torch.Tensor, *, return_heat: bool = True) -> Found | torch.Tensor:
        found = []
        for stage in self.stages:
            image = stage(image)
            found.append(image)
        scores = self.scores(self.dropout(image.mean((2, 3))))
        if not return_heat:
            return scores
        size = found[0].shape[2:]
        whole = [nn.functional.interpolate(each, size=size, mode="bilinear") for each in found]
        return Found(scores, self.heat(torch.cat(whole, 1)).squeeze(1))


def make(config: str, widths: Sequence[int] | None = None) -> LeafNet:
    """The net of a configuration file; `widths` go before what it says."""
    read = NetConfig.read(config)
    return LeafNet(replace(read, widths=tuple(widths)) if widths else read)
