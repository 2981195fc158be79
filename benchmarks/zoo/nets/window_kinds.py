"""Kinds of networks that cut, look up, route and decode by what they compute: windows, samples, experts, symbols."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from zoo_weights import realistic


class Windows(nn.Module):
    """Attention in windows of a picture of any size: padded to whole windows, rolled, masked where a window wraps."""

    def __init__(self, width: int = 16, heads: int = 2, side: int = 4) -> None:
        super().__init__()
        self.heads, self.side = heads, side
        self.patch, self.norm = nn.Conv2d(3, width, 2, 2), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn(heads, side**2, side**2) * 0.2)
        self.head = nn.Linear(width, 5)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.patch(image).permute(0, 2, 3, 1)
        for shift in (0, self.side // 2):
            x = x + self._attend(self.norm(x), shift)
        return self.head(x.mean((1, 2))), x

    def _attend(self, x: Tensor, shift: int) -> Tensor:
        height, width, side = x.shape[1], x.shape[2], self.side
        x = F.pad(x, (0, 0, 0, -width % side, 0, -height % side))
        whole = torch.roll(x, (-shift, -shift), (1, 2))
        windows = self._cut(whole)
        query, key, value = self.mixed(windows).unflatten(-1, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5).unbind(0)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + self.bias
        if shift:
            scores = scores + self._wrapped(x.shape[1], x.shape[2], shift)[None, :, None]
        made = (scores.softmax(-1) @ value).transpose(2, 3).flatten(3)
        tall, wide = x.shape[1] // side, x.shape[2] // side
        back = self.out(made).view(x.shape[0], tall, wide, side, side, -1).transpose(2, 3)
        back = back.reshape(x.shape)
        return torch.roll(back, (shift, shift), (1, 2))[:, :height, :width]

    def _cut(self, x: Tensor) -> Tensor:
        """(N, H, W, C) as (N, windows, places, C)."""
        count, height, width, channels = x.shape
        side = self.side
        cut = x.view(count, height // side, side, width // side, side, channels).transpose(2, 3)
        return cut.reshape(count, -1, side**2, channels)

    def _wrapped(self, height: int, width: int, shift: int) -> Tensor:
        """-100 between places of a window that lie at opposite borders of the picture."""
        places = [torch.arange(size) for size in (height, width)]
        rows, columns = (
            (at >= size - self.side).long() + (at >= size - shift).long()
            for at, size in zip(places, (height, width), strict=True)
        )
        region = self._cut((rows[:, None] * 3 + columns)[None, :, :, None])[0, :, :, 0]
        return torch.where(region[:, None] == region[:, :, None], 0.0, -100.0)


class Deformable(nn.Module):
    """Deformable attention: queries look at a few places of two levels that they choose themselves."""

    def __init__(self, width: int = 16, heads: int = 2, places: int = 3) -> None:
        super().__init__()
        self.heads, self.places = heads, places
        self.offset, self.weight = nn.Linear(width, heads * 4 * places), nn.Linear(width, heads * 2 * places)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.down = nn.Conv2d(width, width, 3, 2, 1)

    def forward(self, feature: Tensor, query: Tensor, centre: Tensor) -> Tensor:
        count, queries, width = query.shape
        offset = self.offset(query).view(count, queries, self.heads, 2, self.places, 2)
        seen = []
        for at, level in enumerate((feature, self.down(feature))):
            value = self.value(level.permute(0, 2, 3, 1)).unflatten(-1, (self.heads, -1)).permute(0, 3, 4, 1, 2)
            size = torch.tensor([level.shape[3], level.shape[2]], dtype=query.dtype)
            grid = 2 * (centre[:, :, None, None] + offset[:, :, :, at] / size) - 1
            grid = grid.transpose(1, 2).flatten(0, 1)
            seen.append(F.grid_sample(value.flatten(0, 1), grid, align_corners=False))
        weight = self.weight(query).view(count, queries, self.heads, -1).softmax(-1).transpose(1, 2).flatten(0, 1)
        made = (torch.cat(seen, -1) * weight[:, None]).sum(-1)
        return self.out(made.view(count, width, queries).transpose(1, 2))


class Matched(nn.Module):
    """A U-Net that pads: the picture to an even size, what comes from below to what it is joined with."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(12, 16, 3, padding=1), nn.Conv2d(16, 24, 3, 2, 1)
        self.up = nn.ConvTranspose2d(24, 16, 2, 2, groups=2)
        self.act, self.norm = nn.PReLU(16), nn.GroupNorm(4, 16)
        self.last = nn.Conv2d(32, 12, 3, padding=1, padding_mode="replicate")

    def forward(self, image: Tensor) -> Tensor:
        height, width = image.shape[-2:]
        x = F.pixel_unshuffle(F.pad(image, (0, width % 2, 0, height % 2), mode="replicate"), 2)
        x = self.act(self.norm(self.first(x)))
        up = self.up(F.silu(self.down(x)))
        up = F.pad(up, (0, x.shape[3] - up.shape[3], 0, x.shape[2] - up.shape[2]))
        return F.pixel_shuffle(self.last(torch.cat([x, up], 1)), 2)[..., :height, :width] + image


class Perceiver(nn.Module):
    """A few latent vectors look at inputs of any number, of which some are not there; the weights are an output."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.latent, self.inner = nn.Parameter(torch.randn(5, width)), nn.Linear(15, width)
        self.cross = nn.MultiheadAttention(width, 2, batch_first=True)
        self.layer = nn.TransformerEncoderLayer(width, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True)
        self.head = nn.Linear(width, 3)

    def forward(self, items: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        place = torch.arange(items.shape[1]) / items.shape[1]
        turns = place[:, None] * math.pi * 2 ** torch.arange(4)
        wave = torch.cat([turns.sin(), turns.cos()], -1).expand(items.shape[0], -1, -1)
        seen = self.inner(torch.cat([items, wave], -1))
        latent = self.latent.expand(items.shape[0], -1, -1)
        found, weights = self.cross(latent, seen, seen, key_padding_mask=~present)
        return self.head(self.layer(latent + found).mean(1)), weights


class Rotary(nn.Module):
    """Llama as it was published: places as complex numbers, RMS norms, fewer keys than queries, gates."""

    def __init__(self, width: int = 16, heads: int = 4, shared: int = 2) -> None:
        super().__init__()
        self.heads, self.shared, each = heads, shared, width // heads
        self.table, self.norm = nn.Embedding(60, width), nn.RMSNorm(width, eps=1e-6)
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(width, shared * each, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 24, bias=False) for _ in range(2))
        self.down = nn.Linear(24, width, bias=False)
        turns = torch.outer(torch.arange(64.0), 10000 ** (-torch.arange(0, each, 2) / each))
        self.register_buffer("turns", torch.stack([turns.cos(), turns.sin()], -1))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        y = self.norm(x)
        query, key = self._turned(self.query(y), self.heads), self._turned(self.key(y), self.shared)
        value = self.value(y).unflatten(-1, (self.shared, -1)).transpose(1, 2)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def _turned(self, x: Tensor, heads: int) -> Tensor:
        turns = torch.view_as_complex(self.turns)[: x.shape[1]]
        number = torch.view_as_complex(x.unflatten(-1, (heads, -1, 2)))
        turned = number * turns.view(1, turns.shape[0], 1, turns.shape[1])
        return torch.view_as_real(turned).flatten(3).transpose(1, 2)


class EdgeAttention(nn.Module):
    """Graph attention over a list of edges: a softmax over the edges that end in a node, and how many those are."""

    def __init__(self, width: int = 6, heads: int = 3) -> None:
        super().__init__()
        self.linear, self.score = nn.Linear(5, heads * width), nn.Parameter(torch.randn(heads, 2 * width))
        self.heads = heads

    def forward(self, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        count, size, _ = nodes.shape
        start, end = (edges + torch.arange(count)[:, None, None] * size).flatten(0, 1).unbind(1)
        x = self.linear(nodes.flatten(0, 1)).unflatten(-1, (self.heads, -1))
        score = F.leaky_relu((torch.cat([x[start], x[end]], -1) * self.score).sum(-1), 0.2)
        to = end[:, None].expand(-1, self.heads)
        empty = x.new_zeros(count * size, self.heads)
        most = (empty - float("inf")).scatter_reduce(0, to, score, "amax")
        weight = (score - most[end]).exp()
        weight = weight / (empty.scatter_add(0, to, weight)[end] + 1e-16)
        made = torch.zeros_like(x).index_add(0, end, x[start] * weight[..., None])
        ends = end.new_zeros(count * size).scatter_add(0, end, torch.ones_like(end))
        return made.view(count, size, -1), ends.view(count, size)


class Routed(nn.Module):
    """Each token goes to the two experts that its gate likes best; each expert sees its own tokens alone."""

    def __init__(self, width: int = 8, experts: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 12), nn.GELU(), nn.Linear(12, width)) for _ in range(experts)]
        )

    def forward(self, states: Tensor) -> Tensor:
        flat = states.flatten(0, 1)
        weight, chosen = self.gate(flat).softmax(-1).topk(2, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        made = torch.zeros_like(flat)
        for at, expert in enumerate(self.experts):
            token, place = torch.where(chosen == at)
            made = made.index_add(0, token, expert(flat[token]) * weight[token, place, None])
        return made.view_as(states)


class Transcriber(nn.Module):
    """Greedy decoding of CTC: repeated symbols and blanks left out, what is left moved to the front."""

    def __init__(self, symbols: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(6, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, symbols, 1))

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        likely = self.body(mel).transpose(1, 2).log_softmax(-1)
        best = likely.argmax(-1)
        keep = (best != F.pad(best, (1, 0), value=-1)[:, :-1]) & (best != 0)
        place = torch.where(keep, keep.long().cumsum(1) - 1, best.shape[1])
        room = best.new_full((best.shape[0], best.shape[1] + 1), -1)
        return room.scatter(1, place, best)[:, :-1], keep.sum(1), likely.amax(-1).sum(1)


_KINDS = {
    "windows": Windows,
    "deformable": Deformable,
    "matched": Matched,
    "perceiver": Perceiver,
    "rotary": Rotary,
    "edge_attention": EdgeAttention,
    "routed": Routed,
    "transcriber": Transcriber,
}


def __getattr__(name: str) -> object:
    """A factory for each kind."""
    kind = _KINDS.get(name)
    if kind is None:
        raise AttributeError(name)
    return lambda: realistic(kind())
