"""Images with a bright spot, drawn here: the real ones are not in the repository."""

from __future__ import annotations

import torch


def draw(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (count, 3, 32, 32) and the quarter that the spot lies in."""
    drawn = torch.Generator().manual_seed(seed)
    images = torch.rand(count, 3, 32, 32, generator=drawn) * 0.3
    quarter = torch.randint(0, 4, (count,), generator=drawn)
    for image, where in zip(images, quarter.tolist(), strict=True):
        top, left = 16 * (where // 2) + 5, 16 * (where % 2) + 5
        image[:, top : top + 6, left : left + 6] += 0.7
    return images, quarter
