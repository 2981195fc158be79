"""Kinds of networks that hear or speak."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from zoo_weights import noise, realistic


class Sound(nn.Module):
    """Strided, dilated, grouped and transposed convolutions in one dimension."""

    def __init__(self) -> None:
        super().__init__()
        layers, before = [], 1
        for after, size, stride in ((16, 64, 8), (32, 9, 4), (64, 5, 2)):
            layers += [nn.Conv1d(before, after, size, stride, size // 2), nn.BatchNorm1d(after), nn.LeakyReLU(0.1)]
            before = after
        self.body, self.wide = nn.Sequential(*layers), nn.Conv1d(64, 64, 3, padding=4, dilation=4, groups=8)
        self.up, self.head = nn.ConvTranspose1d(64, 32, 4, stride=2, padding=1), nn.Linear(32, 12)

    def forward(self, wave: Tensor) -> Tensor:
        return self.head(F.max_pool1d(self.up(F.relu(self.wide(self.body(wave)))), 4).mean(-1))


class Conformer(nn.Module):
    """One conformer block: two half feed-forwards, attention with relative positions, a gated depthwise convolution."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.sub = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.into, self.norms = nn.Linear(8 * 10, width), nn.ModuleList([nn.LayerNorm(width) for _ in range(5)])
        self.feeds = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)) for _ in range(2)]
        )
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.apart = nn.Embedding(65, heads)
        self.gate, self.deep = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 7, padding=3, groups=width)
        self.norm, self.point, self.head = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1), nn.Linear(width, 30)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.sub(mel[:, None])
        x = self.into(x.permute(0, 2, 1, 3).flatten(2))
        count, length, _ = x.shape
        x = x + 0.5 * self.feeds[0](self.norms[0](x))
        qkv = self.qkv(self.norms[1](x)).view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        times = torch.arange(length)
        bias = self.apart((times[:, None] - times[None]).clamp(-32, 32) + 32).permute(2, 0, 1)
        shares = torch.softmax(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5 + bias, -1)
        x = x + self.out((shares @ v).transpose(1, 2).reshape(count, length, -1))
        y = F.glu(self.gate(self.norms[2](x).transpose(1, 2)), 1)
        x = x + self.point(F.silu(self.norm(self.deep(y)))).transpose(1, 2)
        x = x + 0.5 * self.feeds[1](self.norms[3](x))
        return self.head(self.norms[4](x)).log_softmax(-1)


class WaveNet(nn.Module):
    """Causal dilated gated convolutions; every layer adds to the answer."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.into = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList([nn.Conv1d(width, 2 * width, 2, dilation=2**at) for at in range(5)])
        self.backs, self.skips = (nn.ModuleList([nn.Conv1d(width, width, 1) for _ in range(5)]) for _ in range(2))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(width, 16, 1))

    def forward(self, wave: Tensor) -> Tensor:
        x, found = self.into(wave), torch.zeros(())
        for at, (gate, back, skip) in enumerate(zip(self.gates, self.backs, self.skips, strict=True)):
            value, share = gate(F.pad(x, (2**at, 0))).chunk(2, 1)
            y = value.tanh() * share.sigmoid()
            x, found = x + back(y), found + skip(y)
        return self.head(found)


class Separator(nn.Module):
    """Conv-TasNet: learnt frames, masks of two voices, and overlap-add by a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Conv1d(1, 32, 16, 8, bias=False), nn.ConvTranspose1d(32, 1, 16, 8, bias=False)
        self.norm, self.into = nn.GroupNorm(1, 32), nn.Conv1d(32, 16, 1)
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.Conv1d(16, 32, 1), nn.PReLU(), nn.GroupNorm(1, 32),
                           nn.Conv1d(32, 32, 3, padding=2**at, dilation=2**at, groups=32), nn.PReLU(),
                           nn.Conv1d(32, 16, 1)) for at in range(3)]
        )  # fmt: skip
        self.masks = nn.Conv1d(16, 64, 1)

    def forward(self, wave: Tensor) -> Tensor:
        frames = F.relu(self.encoder(wave))
        x = self.into(self.norm(frames))
        for block in self.blocks:
            x = x + block(x)
        masks = self.masks(x).view(x.shape[0], 2, 32, -1).sigmoid()
        voices = (masks * frames[:, None]).flatten(0, 1)
        return self.decoder(voices).view(x.shape[0], 2, -1)


class Spectrogram(nn.Module):
    """A mel spectrogram by torch.stft, in decibels, and a small classifier of it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(128))
        self.register_buffer("mel", torch.rand(65, 20))
        self.body = nn.Sequential(nn.Conv1d(20, 24, 5, 2), nn.BatchNorm1d(24), nn.ReLU())
        self.head = nn.Linear(24, 7)

    def forward(self, wave: Tensor) -> Tensor:
        found = torch.stft(wave, 128, 64, window=self.window, center=False, return_complex=False, onesided=True)
        power = found.pow(2).sum(-1).transpose(1, 2) @ self.mel
        loud = 10 * torch.log10(power.clamp(min=1e-5))
        return self.head(self.body(loud.transpose(1, 2) / 20).mean(-1))


class Vocoder(nn.Module):
    """HiFi-GAN in small: transposed convolutions and residual blocks of several dilations."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Conv1d(20, 32, 7, padding=3)
        self.ups = nn.ModuleList([nn.ConvTranspose1d(32, 16, 8, 4, 2), nn.ConvTranspose1d(16, 8, 4, 2, 1)])
        self.blocks = nn.ModuleList(
            [
                nn.ModuleList([nn.Conv1d(width, width, 3, padding=rate, dilation=rate) for rate in (1, 3)])
                for width in (16, 8)
            ]
        )
        self.out = nn.Conv1d(8, 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.into(mel)
        for up, block in zip(self.ups, self.blocks, strict=True):
            x = up(F.leaky_relu(x, 0.1))
            for conv in block:
                x = x + conv(F.leaky_relu(x, 0.1))
        return self.out(F.leaky_relu(x)).tanh()


def sound() -> nn.Module:
    return realistic(Sound(), *noise(6, 1, 2000))


def conformer() -> nn.Module:
    return realistic(Conformer(), *noise(6, 48, 40))


def spectrogram() -> nn.Module:
    return realistic(Spectrogram(), *noise(6, 2000))


def __getattr__(name: str) -> object:
    """The kinds by their names in small letters: with realistic weights, where no data has to be seen."""
    kind = _PLAIN.get(name)
    if kind is None:
        raise AttributeError(name)
    return lambda: realistic(kind())


_PLAIN = {
    "wavenet": WaveNet,
    "separator": Separator,
    "vocoder": Vocoder,
}
