"""Models of sequences with a mask, each another way to leave out what is masked."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from seeded import seeds
from torch import Tensor, nn


@seeds(51)
class MaskedMean(nn.Module):
    """The mean of the frames that count."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        share = mask[:, :, None].to(frames.dtype)
        return self.head((torch.tanh(self.body(frames)) * share).sum(1) / share.sum(1).clamp(min=1.0))


@seeds(52)
class MaskedMax(MaskedMean):
    """The largest of the frames that count; the mask is boolean."""

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        x = torch.tanh(self.body(frames)).masked_fill(~mask[:, :, None], -2.0)
        return self.head(x.amax(1))


@seeds(53)
class MaskedPooling(MaskedMean):
    """A weighted mean, its weights a softmax over the frames that count."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(6, 1)

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        scores = torch.where(mask[:, :, None] > 0, self.score(frames), torch.full_like(frames[:, :, :1], -1e9))
        return self.head((F.softmax(scores, 1) * torch.tanh(self.body(frames))).sum(1))


@seeds(54)
class MaskedPositions(nn.Module):
    """Words with positions that count what is not masked, and attention that sees it alone."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(120, 16), nn.Embedding(65, 16)
        self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.words(ids) + self.positions(mask.cumsum(1) * mask)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 4.0 + (1.0 - mask[:, None, :].to(x.dtype)) * -1e4
        x = F.softmax(scores, -1) @ self.value(x)
        share = mask[:, :, None].to(x.dtype)
        return self.head((x * share).sum(1) / share.sum(1).clamp(min=1.0))


@seeds(55)
class MaskedLast(nn.Module):
    """The state after the last frame: a running mean that fades with time and skips masked frames, as a GRU would."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        share = mask.to(frames.dtype)
        later = share.flip(1).cumsum(1).flip(1)
        weights = share * torch.pow(0.7, later - 1.0)
        return self.head((torch.tanh(self.body(frames)) * weights[:, :, None]).sum(1))


@seeds(56)
class MaskedTags(MaskedMean):
    """A tag for each frame, from the frame and the mean of those that count."""

    def forward(self, frames: Tensor, mask: Tensor) -> Tensor:
        x, share = torch.tanh(self.body(frames)), mask[:, :, None].to(frames.dtype)
        mean = (x * share).sum(1, keepdim=True) / share.sum(1, keepdim=True).clamp(min=1.0)
        return self.head(x + mean) * share
