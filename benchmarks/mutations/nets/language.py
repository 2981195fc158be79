"""Models of sequences: a transformer encoder, a causal decoder, recurrent nets, a recommender, calendars."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from seeded import seeded
from torch import Tensor, nn


class Attention(nn.Module):
    """Attention written out, so that each exporter emits its own operators for it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.weigh = nn.Softmax(-1)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        count, length, width = x.shape
        q, k, v = (
            part(x).reshape(count, length, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        weights = self.weigh((q @ k.transpose(-1, -2)) * self.scale + bias)
        return self.out((weights @ v).transpose(1, 2).reshape(count, length, width))


class Block(nn.Module):
    """Attention and a feed-forward part, each after a normalisation."""

    def __init__(self, width: int, heads: int, eps: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        self.attention = Attention(width, heads)
        self.wide, self.act, self.narrow = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), bias)
        return x + self.narrow(self.act(self.wide(self.norm2(x))))


class Encoder(nn.Module):
    """A text encoder with a table of positions and a mask; the mean over what is not masked."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(300, 32), nn.Embedding(64, 32)
        self.blocks = nn.ModuleList(Block(32, 4, 1e-12) for _ in range(2))
        self.head = nn.Linear(32, 4)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.words(ids) * 0.05 + self.positions(torch.arange(ids.shape[1]))[None] * 0.05
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * -1e4
        for block in self.blocks:
            x = block(x, bias)
        share = mask[:, :, None].to(x.dtype)
        return self.head((x * share).sum(1) / share.sum(1).clamp(min=1.0))


class Decoder(nn.Module):
    """A causal language model: the logits of the next token at each position."""

    fixed_hidden: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(100, 32), nn.Embedding(48, 32)
        self.blocks = nn.ModuleList(Block(32, 4, 1e-5) for _ in range(2))
        self.norm = nn.LayerNorm(32)
        self.register_buffer("fixed_hidden", torch.ones(48, 48).triu(1) * -1e9)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.words(tokens) + self.positions(torch.arange(length))[None]
        for block in self.blocks:
            x = block(x, self.fixed_hidden[:length, :length])
        return self.norm(x) @ self.words.weight.T


class BidirectionalLstm(nn.Module):
    """A bidirectional LSTM over frames, and a class for each frame."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 10, batch_first=True, bidirectional=True)
        self.head = nn.Linear(20, 5)

    def forward(self, frames: Tensor) -> Tensor:
        return self.head(self.lstm(frames)[0])


class GruNet(nn.Module):
    """A GRU that starts from a learned state; its last state decides."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 12, batch_first=True)
        self.start = nn.Parameter(torch.zeros(1, 1, 12))
        self.head = nn.Linear(12, 3)

    def forward(self, frames: Tensor) -> Tensor:
        start = self.start.expand(1, frames.shape[0], 12).contiguous()
        return self.head(self.gru(frames, start)[1][0])


class Recommender(nn.Module):
    """Users and items by their tables, a cosine of the two, and a small net beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(200, 12), nn.Embedding(100, 12)
        self.wide = nn.Linear(25, 16)
        self.head = nn.Linear(16, 1)

    def forward(self, user: Tensor, item: Tensor, price: Tensor) -> Tensor:
        left, right = self.users(user), self.items(item)
        cosine = (F.normalize(left, dim=-1) * F.normalize(right, dim=-1)).sum(-1, keepdim=True)
        x = torch.cat([left - right, left * right, torch.log1p(price.abs())[:, None]], -1)
        return torch.sigmoid(self.head(F.relu(self.wide(x)))[:, 0] + cosine[:, 0])


class Calendar(nn.Module):
    """Seconds since 1970 and an offset in minutes become hour, weekday and a hash, each with a table of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.hours, self.days, self.buckets = nn.Embedding(24, 6), nn.Embedding(7, 6), nn.Embedding(64, 6)
        self.head = nn.Linear(19, 3)

    def forward(self, stamp: Tensor, offset: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        local = stamp + offset * 60
        day = torch.div(local, 86400, rounding_mode="floor")
        hour = torch.div(torch.remainder(local, 86400), 3600, rounding_mode="floor")
        weekday = torch.remainder(day + 4, 7)
        zone = torch.div(offset, 30, rounding_mode="floor")
        bucket = torch.remainder(local * 40503, 64)
        rounded = torch.round(offset.to(torch.float32) / 60.0)
        x = torch.cat([self.hours(hour), self.days(weekday), self.buckets(bucket), rounded[:, None] / 14.0], -1)
        return self.head(torch.tanh(x)), zone, torch.remainder(offset, 60)


def encoder() -> nn.Module:
    return seeded(Encoder(), 11)


def decoder() -> nn.Module:
    return seeded(Decoder(), 12)


def bidirectional_lstm() -> nn.Module:
    return seeded(BidirectionalLstm(), 13)


def gru_net() -> nn.Module:
    return seeded(GruNet(), 14)


def recommender() -> nn.Module:
    return seeded(Recommender(), 15)


def calendar() -> nn.Module:
    return seeded(Calendar(), 16)
