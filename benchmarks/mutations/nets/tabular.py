"""Models of tables, signals and distributions: unscaled columns, normalisations, spectra, a VAE, log probabilities."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from seeded import seeded
from torch import Tensor, nn

COLUMNS = (
    (40.0, 12.0), (52_000.0, 21_000.0), (0.02, 0.01), (3.0, 1.5),
    (1e6, 4e5), (-5.0, 2.0), (0.5, 0.2), (700.0, 90.0),
)  # fmt: skip


class TableNet(nn.Module):
    """A net on columns as they are, from hundredths to millions. It scales them itself. A logit of 4 is certain."""

    fixed_mean: Tensor
    fixed_std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fixed_mean", torch.tensor([mean for mean, _ in COLUMNS]))
        self.register_buffer("fixed_std", torch.tensor([std for _, std in COLUMNS]))
        self.wide, self.middle, self.head = nn.Linear(8, 24), nn.Linear(24, 24), nn.Linear(24, 3)

    def forward(self, columns: Tensor) -> tuple[Tensor, Tensor]:
        x = (columns - self.fixed_mean) / self.fixed_std
        x = F.silu(self.wide(x))
        x = F.elu(self.middle(x))
        logits = self.head(x)
        return logits, logits.clamp(-4.0, 4.0).argmax(-1)


class NormNet(nn.Module):
    """Layer, group and instance normalisation, and unit vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.group = nn.GroupNorm(2, 8)
        self.instance = nn.InstanceNorm2d(8, affine=True)
        self.layer = nn.LayerNorm(8, eps=1e-6)
        self.head = nn.Linear(8, 6)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.group(self.conv(image)))
        spread = x.std((2, 3))
        x = self.instance(x)
        x = self.layer((x * x * x).mean((2, 3)) + x.amax((2, 3)) + spread)
        return F.normalize(self.head(x), dim=-1), spread


class SpectrumNet(nn.Module):
    """Frames of a wave through a Fourier basis, log power, and convolutions in time."""

    fixed_basis: Tensor

    def __init__(self) -> None:
        super().__init__()
        at = torch.arange(64)[None, :] * torch.arange(33)[:, None] * (2 * math.pi / 64)
        window = torch.hann_window(64)
        self.register_buffer("fixed_basis", torch.cat([torch.cos(at) * window, torch.sin(at) * window])[:, None])
        self.conv1, self.conv2 = nn.Conv1d(33, 16, 3, padding=1), nn.Conv1d(16, 8, 3, dilation=2, padding=2)
        self.head = nn.Linear(8, 4)

    def forward(self, wave: Tensor) -> Tensor:
        parts = F.conv1d(wave[:, None], self.fixed_basis, stride=32)
        power = parts[:, :33] ** 2 + parts[:, 33:] ** 2
        x = torch.log(power + 1e-6)
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.head(x.amax(-1))


class Vae(nn.Module):
    """The mean and the variance of a code, its divergence from a normal one, and what the mean decodes to."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(16, 20)
        self.mean, self.log_var = nn.Linear(20, 6), nn.Linear(20, 6)
        self.softplus = nn.Softplus(beta=2.0)
        self.decode = nn.Linear(6, 16)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = torch.tanh(self.body(x))
        mean, log_var = self.mean(hidden), self.log_var(hidden)
        divergence = -0.5 * (1 + log_var - mean**2 - torch.exp(log_var)).sum(-1)
        return self.softplus(self.decode(mean)), torch.exp(0.5 * log_var), divergence


class Classifier(nn.Module):
    """Logits as probabilities, as logarithms, and as the logarithm of a sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(12, 16), nn.Linear(16, 9)
        self.act = nn.GELU()

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = self.head(self.act(self.body(features))) * 3.0
        return F.softmax(logits, -1), F.log_softmax(logits, -1), F.logsigmoid(logits)


class Gauges(nn.Module):
    """Sensor values: limits, levels, signs and square roots, each of its own column."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.head = nn.Linear(6, 4)

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        level = torch.floor(values * 4.0) / 4.0
        root = torch.sqrt(self.relu(values) + 1e-8)
        steps = torch.round(values.clamp(-50.0, 50.0) * 2.0) / 2.0
        erf = torch.erf(values)
        x = torch.where(values > 2.5, level, root) - steps * 0.1
        return self.head(x) + erf[:, :4], torch.maximum(values[:, :3], values[:, 3:])


def table_net() -> nn.Module:
    return seeded(TableNet(), 21)


def norm_net() -> nn.Module:
    return seeded(NormNet(), 22)


def spectrum_net() -> nn.Module:
    return seeded(SpectrumNet(), 23)


def vae() -> nn.Module:
    return seeded(Vae(), 24)


def classifier() -> nn.Module:
    return seeded(Classifier(), 25)


def gauges() -> nn.Module:
    return seeded(Gauges(), 26)
