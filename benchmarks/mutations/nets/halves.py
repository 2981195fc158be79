"""Models with values that float16 cannot hold, or cannot hold closely enough: each is harmless in float32."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from seeded import seeds
from torch import Tensor, nn


@seeds(71)
class ResidualStream(nn.Module):
    """A residual stream that grows beyond 65,504 before it is normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(16, 24), nn.Linear(24, 5)
        self.norms = nn.ModuleList(nn.LayerNorm(24) for _ in range(5))
        self.blocks = nn.ModuleList(nn.Linear(24, 24) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        stream = self.embed(x)
        for norm, block in zip(self.norms, self.blocks, strict=False):
            stream = stream + 60_000.0 * torch.sigmoid(block(norm(stream)))
        return self.head(self.norms[-1](stream))


@seeds(72)
class UnitVectors(nn.Module):
    """Vectors over their length, whose squares overflow."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(16, 24), nn.Linear(24, 5)

    def forward(self, x: Tensor) -> Tensor:
        long = 900.0 * self.body(x)
        length = torch.sqrt((long * long).sum(-1, keepdim=True) + 1e-6)
        return self.head(long / length)


@seeds(73)
class HandVariance(nn.Module):
    """A variance as the mean of squares less the squared mean: half the digits of float32 are lost, and all of half."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(16, 32), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        shifted = 60.0 + 2.0 * torch.tanh(self.body(x))
        mean = shifted.mean(-1, keepdim=True)
        variance = (shifted * shifted).mean(-1, keepdim=True) - mean * mean
        return self.head((shifted - mean) / torch.sqrt(variance.clamp(min=0.0) + 0.1))


@seeds(74)
class LongMean(nn.Module):
    """A mean of 512 values as their sum over 512."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(16, 512), nn.Linear(1, 5)

    def forward(self, x: Tensor) -> Tensor:
        total = (240.0 + 90.0 * F.relu(self.body(x))).sum(-1, keepdim=True)
        return self.head(total / 512.0 / 270.0)


@seeds(75)
class Evidence(nn.Module):
    """The logarithm of a sum of exponentials, without the largest taken off."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(16, 12), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        raised = torch.exp(12.0 + self.body(x))
        return self.head(raised / raised.sum(-1, keepdim=True))


@seeds(76)
class LargeScores(nn.Module):
    """Attention whose scores are scaled after the product."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        queries, keys = 120.0 * self.queries(x), 120.0 * self.keys(x)
        pieces = keys.reshape(-1, 4, 4)
        scores = torch.matmul(queries.reshape(-1, 4, 4), pieces.transpose(1, 2))
        weights = torch.softmax(scores / 57_600.0, -1)
        return self.head(torch.matmul(weights, pieces).reshape(-1, 16) / 120.0)
