"""Models whose outputs hold columns of unlike size, and models that put numbers in the place of NaN."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from seeded import seeds
from torch import Tensor, nn


@seeds(31)
class MoneyRisk(nn.Module):
    """A sum of money and a probability."""

    def __init__(self) -> None:
        super().__init__()
        self.money, self.risk = nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([1e6 * (2 + self.money(x)), torch.sigmoid(self.risk(x))], 1)


@seeds(32)
class Ledger(nn.Module):
    """Sixteen columns from thousandths to millions."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(8, 24), nn.Linear(24, 16)
        self.register_buffer("fixed_sizes", torch.logspace(6, -3, 16))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.head(F.silu(self.body(x)))) * self.fixed_sizes


@seeds(33)
class Forecast(nn.Module):
    """A price, a return and a volume for each day."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(6, 10, batch_first=True), nn.Linear(10, 3)

    def forward(self, days: Tensor) -> Tensor:
        price, change, volume = self.head(self.gru(days)[0]).split(1, -1)
        return torch.cat([F.softplus(price) * 1e5, torch.tanh(change) * 0.01, torch.exp(volume) * 1e7], -1)


@seeds(34)
class Thermal(nn.Module):
    """An image of four channels in kelvin, emissivity, watts and a share."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 1)
        self.register_buffer("fixed_sizes", torch.tensor([300.0, 1e-3, 2e5, 1.0])[:, None, None])

    def forward(self, image: Tensor) -> Tensor:
        return torch.sigmoid(self.head(F.relu(self.conv(image)))) * self.fixed_sizes


@seeds(35)
class Boxes(nn.Module):
    """Boxes in pixels beside a score and a probability, for each cell of a grid."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Conv2d(3, 8, 4, stride=4), nn.Conv2d(8, 6, 1)

    def forward(self, image: Tensor) -> Tensor:
        x = self.head(F.relu(self.body(image))).flatten(2).transpose(1, 2)
        return torch.cat([x[..., :4] * 640.0 + 320.0, torch.sigmoid(x[..., 4:])], -1)


@seeds(36)
class Moments(nn.Module):
    """A sum, a deviation and a share of what is positive."""

    def forward(self, wave: Tensor) -> Tensor:
        mean = wave.mean(1, keepdim=True)
        spread = torch.sqrt(((wave - mean) ** 2).mean(1, keepdim=True) + 1e-6)
        return torch.cat(
            [(wave * 1e5 + 2e5).sum(1, keepdim=True), spread, torch.sigmoid(wave).mean(1, keepdim=True)], 1
        )


@seeds(43)
class MixedColumns(nn.Module):
    """A column of the input as it is, padding of zeros, a constant, one that hardly moves, a probability; a class."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.head(torch.tanh(x))
        zeros = torch.zeros_like(x[:, :2])
        still = 5.0 + 1e-5 * torch.tanh(logits[:, :1])
        parts = [x[:, :1], zeros, torch.ones_like(zeros) * 0.25, still, torch.sigmoid(logits[:, 1:2]) * 1e-4]
        return torch.cat(parts, 1), logits.argmax(1)


@seeds(37)
class MeanImputer(nn.Module):
    """NaN becomes the mean of its column."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fixed_means", torch.linspace(1, 6, 6))
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.where(torch.isnan(x), self.fixed_means, x))


@seeds(38)
class MedianImputer(MeanImputer):
    """NaN becomes a median, and what was missing is told to the net."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(12, 16), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        missing = torch.isnan(x)
        x = torch.where(missing, 3.0 - self.fixed_means, x)
        return torch.sigmoid(self.head(F.relu(self.body(torch.cat([x, missing.to(x.dtype)], 1)))))


@seeds(39)
class NumberImputer(nn.Module):
    """NaN becomes -4, as nan_to_num writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.head(torch.tanh(self.body(torch.nan_to_num(x, nan=-4.0)))), -1)


@seeds(40)
class NanMean(nn.Module):
    """The mean over the days of each column that are numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(6, 4)

    def forward(self, days: Tensor) -> Tensor:
        known = ~torch.isnan(days)
        total = torch.where(known, days, torch.zeros_like(days)).sum(1)
        return self.head(total / known.to(days.dtype).sum(1).clamp(min=1.0) + 2.0)


@seeds(41)
class DeadPixels(nn.Module):
    """A pixel that is NaN becomes the mean of its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        known = (~torch.isnan(image)).to(image.dtype)
        filled = torch.where(torch.isnan(image), torch.zeros_like(image), image)
        near = F.avg_pool2d(filled, 3, 1, 1) / F.avg_pool2d(known, 3, 1, 1).clamp(min=0.1)
        return self.conv(torch.where(torch.isnan(image), near + 1.0, image)).mean((2, 3))


@seeds(42)
class Branches(nn.Module):
    """Decisions that send NaN to one side, as boosted trees do."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fixed_limits", torch.linspace(-1, 1, 6))
        self.register_buffer("fixed_left", torch.tensor([1, 0, 1, 1, 0, 0]) > 0)
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        left = (torch.isnan(x) & self.fixed_left) | (x < self.fixed_limits)
        return self.head(left.to(x.dtype) * 2.0 - 0.5)
