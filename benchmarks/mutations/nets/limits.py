"""Models with limits, thresholds, tables and tails, and models of values that grow inside."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from seeded import seeds
from torch import Tensor, nn


@seeds(61)
class Clipped(nn.Module):
    """Sensor values between limits that ordinary values do not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = -35.0, 50.0
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.clamp(self.low, self.high))


@seeds(62)
class Alarm(nn.Module):
    """A rule beside a net: beyond a threshold on one input another formula decides."""

    def __init__(self) -> None:
        super().__init__()
        self.limit, self.factor, self.tail = 37.5, 3.0, -60.0
        self.head = nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        score = self.head(torch.tanh(x))
        score = torch.where(x[:, 2:3] > self.limit, score * self.factor + 1.0, score)
        return torch.where(x[:, 4:5] < self.tail, -score, score)


@seeds(63)
class Tiers(nn.Module):
    """A price by a code's row in a table of 1000."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.head = nn.Embedding(1000, 8), nn.Linear(8, 2)

    def forward(self, code: Tensor) -> Tensor:
        return self.head(torch.tanh(self.rows(code)))


@seeds(64)
class Tails(nn.Module):
    """The logarithm of a sigmoid as log(1 + exp(-x)), a softplus and a cumulative normal, each far out."""

    def __init__(self) -> None:
        super().__init__()
        self.log_cut, self.soft_cut, self.erf_cut = -1e4, -1e4, 1e4

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        falling = torch.where(x < self.log_cut, torch.full_like(x, self.log_cut), F.logsigmoid(x))
        rising = torch.where(x < self.soft_cut, torch.zeros_like(x), F.softplus(x) + 0.01 * x)
        return falling, rising, torch.where(x > self.erf_cut, torch.full_like(x, 2.0), 1.0 + torch.erf(x))


@seeds(65)
class Standardised(nn.Module):
    """Rows without mean and spread, with an epsilon that holds rows of one value."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(6, eps=1e-8), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x))


@seeds(66)
class Saturating(nn.Module):
    """A hidden value that has a limit of its own, and an exponent that is kept from overflow."""

    def __init__(self) -> None:
        super().__init__()
        self.ceiling, self.floor, self.largest = 25.0, -40.0, 30.0
        self.body, self.head = nn.Linear(6, 10), nn.Linear(10, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(x)
        hidden = torch.where(hidden > self.ceiling, hidden * 0.1 + 22.5, hidden)
        hidden = torch.where(hidden < self.floor, torch.full_like(hidden, self.floor), hidden)
        return self.head(hidden), torch.exp(hidden[:, :1].clamp(max=self.largest) * 0.1)


@seeds(70)
class TopOfRelu(nn.Module):
    """The three largest of what a relu leaves, with their places: zeros are ties."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 12)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, places = torch.topk(F.relu(self.body(x) - 1.0), 3)
        return values, places


@seeds(71)
class FakeQuantised(nn.Module):
    """A net on inputs in steps of 1/16, as training for int8 leaves it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.fake_quantize_per_tensor_affine(x, 0.0625, 0, -128, 127))


class Residual(nn.Module):
    """A residual stream of a given gain, which a normalisation brings back."""

    def __init__(self, gain: float, depth: int = 8) -> None:
        super().__init__()
        self.gain = gain
        self.layers = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.gain
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.head(self.norm(x))


@seeds(67)
class OpenAttention(nn.Module):
    """Attention over frames without a table of positions: any length."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(6, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, frames: Tensor) -> Tensor:
        scores = self.query(frames) @ self.key(frames).transpose(1, 2) / 12.0
        return self.head(F.softmax(scores, -1) @ self.value(frames))


@seeds(68)
class OpenConvolution(nn.Module):
    """Convolutions in time of any length, and the largest of each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(6, 12, 3, padding=1), nn.Conv1d(12, 8, 3, padding=2, dilation=2)
        self.head = nn.Linear(8, 3)

    def forward(self, frames: Tensor) -> Tensor:
        x = self.conv2(F.relu(self.conv1(frames.transpose(1, 2))))
        return self.head(x.amax(-1) + x.mean(-1))


@seeds(69)
class OpenPositions(OpenAttention):
    """The same with sines of the position, which are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fixed_rates", torch.tensor([0.9, 0.4, 0.11, 0.05, 0.02, 0.003]))

    def forward(self, frames: Tensor) -> Tensor:
        places = torch.arange(frames.shape[1], dtype=frames.dtype)[:, None] * self.fixed_rates
        return super().forward(frames + torch.sin(places))
