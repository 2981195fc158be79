"""Kinds of networks that make pictures."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from zoo_weights import noise, pictures, realistic


def _conv(before: int, after: int, stride: int = 1, act: type[nn.Module] = nn.SiLU) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), act())


class VectorQuantised(nn.Module):
    """An autoencoder whose code is the nearest row of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(_conv(3, 16, 2), nn.Conv2d(16, 8, 3, 2, 1))
        self.table = nn.Embedding(32, 8)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()
        )

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        code = self.encoder(image).permute(0, 2, 3, 1)
        table = self.table.weight
        apart = code.pow(2).sum(-1, keepdim=True) - 2 * code @ table.t() + table.pow(2).sum(-1)
        nearest = apart.argmin(-1)
        return self.decoder(self.table(nearest).permute(0, 3, 1, 2)), nearest


class Generator(nn.Module):
    """DCGAN: pictures out of noise."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (32, 64, 32, 16)
        layers: list[nn.Module] = [
            nn.ConvTranspose2d(sizes[0], sizes[1], 4, bias=False),
            nn.BatchNorm2d(sizes[1]),
            nn.ReLU(),
        ]
        for before, after in pairwise(sizes[1:]):
            layers += [nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.ConvTranspose2d(sizes[-1], 3, 3, 2, 1, output_padding=1), nn.Tanh())

    def forward(self, seed: Tensor) -> Tensor:
        return self.body(seed[:, :, None, None])


class Styled(nn.Module):
    """StyleGAN's block: weights scaled by a style and demodulated, and noise by a learnt strength."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 16, 8, 8))
        self.style, self.weight = nn.Linear(12, 16), nn.Parameter(torch.randn(16, 16, 3, 3) * 0.2)
        self.colour = nn.Conv2d(16, 3, 1)

    def forward(self, style: Tensor) -> Tensor:
        scale = self.style(style)[:, :, None, None] + 1
        found = F.conv2d(self.start * scale, self.weight, padding=1)
        strength = torch.rsqrt((self.weight[None] * scale[:, None]).pow(2).sum((2, 3, 4)) + 1e-8)
        found = F.leaky_relu(found * strength[:, :, None, None], 0.2)
        return self.colour(F.interpolate(found, scale_factor=2, mode="bilinear", align_corners=False))


class Translation(nn.Module):
    """CycleGAN: instance norms without weights, reflected edges, residual blocks, output padding."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(3, 12, 7), nn.InstanceNorm2d(12), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(12, 24, 3, 2, 1), nn.InstanceNorm2d(24), nn.ReLU())
        self.block = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(24, 24, 3), nn.InstanceNorm2d(24))
        self.up = nn.ConvTranspose2d(24, 12, 3, 2, 1, output_padding=1)
        self.out = nn.Sequential(nn.ReflectionPad2d(3), nn.Conv2d(12, 3, 7), nn.Tanh())

    def forward(self, image: Tensor) -> Tensor:
        x = self.down(self.into(image))
        return self.out(F.relu(self.up(x + self.block(x))))


class Diffusion(nn.Module):
    """A block of a diffusion U-Net: time as sines, group norms, scale and shift, both attentions, up and down."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
        self.into, self.norms = nn.Conv2d(4, 32, 3, padding=1), nn.ModuleList([nn.GroupNorm(8, 32) for _ in range(4)])
        self.convs = nn.ModuleList([nn.Conv2d(32, 32, 3, padding=1) for _ in range(2)])
        self.shift = nn.Linear(64, 64)
        self.down, self.up = nn.Conv2d(32, 32, 3, 2, 1), nn.Conv2d(32, 32, 3, padding=1)
        self.own = nn.MultiheadAttention(32, 4, batch_first=True)
        self.other = nn.MultiheadAttention(32, 4, kdim=24, vdim=24, batch_first=True)
        self.wide, self.narrow, self.out = nn.Linear(32, 128), nn.Linear(64, 32), nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, latent: Tensor, step: Tensor, text: Tensor) -> Tensor:
        rates = torch.exp(-math.log(10000.0) * torch.arange(16) / 16)
        angles = step[:, None].float() * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        x = self.into(latent)
        h = self.convs[0](F.silu(self.norms[0](x)))
        scale, shift = self.shift(F.silu(time))[:, :, None, None].chunk(2, 1)
        x = x + self.convs[1](F.silu(self.norms[1](h) * (1 + scale) + shift))
        small = self.down(x)
        count, width, height, breadth = small.shape
        flat = self.norms[2](small).flatten(2).transpose(1, 2)
        flat = flat + self.own(flat, flat, flat, need_weights=False)[0]
        flat = flat + self.other(flat, text, text, need_weights=False)[0]
        value, gate = self.wide(flat).chunk(2, -1)
        flat = flat + self.narrow(value * F.gelu(gate))
        small = small + flat.transpose(1, 2).reshape(count, width, height, breadth)
        x = x + self.up(F.interpolate(small, scale_factor=2.0, mode="nearest"))
        return self.out(F.silu(self.norms[3](x)))


class SuperResolution(nn.Module):
    """Reflected and repeated edges, pixel shuffle, bicubic resizing; height and width are free."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(3, 16, 3), nn.ReLU(),
            nn.Conv2d(16, 12, 3, padding=1, padding_mode="replicate"), nn.PixelShuffle(2),
        )  # fmt: skip

    def forward(self, image: Tensor) -> Tensor:
        return self.body(image) + F.interpolate(image, scale_factor=2, mode="bicubic", align_corners=False)


def vector_quantised() -> nn.Module:
    return realistic(VectorQuantised(), *pictures(32))


def generator() -> nn.Module:
    return realistic(Generator(), *noise(8, 32))


def styled() -> nn.Module:
    return realistic(Styled())


def translation() -> nn.Module:
    return realistic(Translation())


def diffusion() -> nn.Module:
    return realistic(Diffusion())


def super_resolution() -> nn.Module:
    return realistic(SuperResolution())
