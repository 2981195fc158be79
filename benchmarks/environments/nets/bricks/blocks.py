"""Blocks that `small_nets.py` builds on."""

import torch
from torch import nn


class Squeeze(nn.Module):
    """Squeeze-and-excitation over the channels of an image."""

    def __init__(self, channels):
        super().__init__()
        self.down = nn.Linear(channels, channels // 2)
        self.up = nn.Linear(channels // 2, channels)

    def forward(self, image):
        """Scale each channel by a gate of the channels' means."""
        gate = torch.relu(self.down(image.mean((2, 3))))
        return image * torch.sigmoid(self.up(gate))[:, :, None, None]
