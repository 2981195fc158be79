"""Kinds of networks that look at a whole sequence at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from zoo_weights import realistic


class Encoder(nn.Module):
    """A transformer encoder by hand, with a padding mask and a mean over what is not padding."""

    def __init__(self, vocabulary: int = 300, width: int = 48, heads: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.heads = heads
        self.table, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
                "norm1": nn.LayerNorm(width), "norm2": nn.LayerNorm(width),
                "wide": nn.Linear(width, 4 * width), "narrow": nn.Linear(4 * width, width),
            }) for _ in range(layers)
        )  # fmt: skip
        self.head = nn.Linear(width, 6)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        count, length = input_ids.shape
        x = self.table(input_ids) + self.places(torch.arange(length))[None]
        seen = attention_mask[:, None, None, :] > 0
        for layer in self.layers:
            qkv = layer["qkv"](layer["norm1"](x)).view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
            found = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            x = x + layer["out"](found.transpose(1, 2).reshape(count, length, -1))
            x = x + layer["narrow"](F.gelu(layer["wide"](layer["norm2"](x))))
        share = attention_mask.to(x.dtype)[:, :, None]
        return self.head((x * share).sum(1) / share.sum(1).clamp(min=1))


class TorchEncoder(nn.Module):
    """nn.TransformerEncoder with a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(300, 48), nn.Linear(48, 4)
        layer = nn.TransformerEncoderLayer(48, 4, 96, batch_first=True, activation="gelu", norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.head(self.body(self.table(input_ids), src_key_padding_mask=attention_mask == 0)[:, 0])


class TorchTransformer(nn.Module):
    """nn.Transformer, encoder and decoder, with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(100, 32), nn.Linear(32, 100)
        self.body = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        length = target.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        return self.head(self.body(self.table(source), self.table(target), tgt_mask=later, tgt_is_causal=True))


class Decoder(nn.Module):
    """A causal decoder with rotary positions, RMS norms, grouped queries and gated layers, as the llamas have."""

    def __init__(self, width: int = 48, heads: int = 6, shared: int = 2) -> None:
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.table = nn.Embedding(250, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "q": nn.Linear(width, width, bias=False), "kv": nn.Linear(width, 2 * shared * self.size, bias=False),
                "out": nn.Linear(width, width, bias=False), "norm1": nn.RMSNorm(width), "norm2": nn.RMSNorm(width),
                "gate": nn.Linear(width, 96, bias=False), "up": nn.Linear(width, 96, bias=False),
                "down": nn.Linear(96, width, bias=False),
            }) for _ in range(2)
        )  # fmt: skip
        self.norm = nn.RMSNorm(width)

    def _turn(self, x: Tensor) -> Tensor:
        half = self.size // 2
        rates = 10000.0 ** (-torch.arange(half) / half)
        angles = torch.arange(x.shape[2])[:, None] * rates
        one, two = x[..., :half], x[..., half:]
        return torch.cat([one * angles.cos() - two * angles.sin(), two * angles.cos() + one * angles.sin()], -1)

    def forward(self, tokens: Tensor) -> Tensor:
        count, length = tokens.shape
        x = self.table(tokens)
        for layer in self.layers:
            y = layer["norm1"](x)
            q = self._turn(layer["q"](y).view(count, length, self.heads, -1).transpose(1, 2))
            k, v = layer["kv"](y).view(count, length, 2, self.shared, -1).permute(2, 0, 3, 1, 4).unbind(0)
            k, v = (each.repeat_interleave(self.heads // self.shared, 1) for each in (self._turn(k), v))
            found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer["out"](found.transpose(1, 2).reshape(count, length, -1))
            y = layer["norm2"](x)
            x = x + layer["down"](F.silu(layer["gate"](y)) * layer["up"](y))
        return self.norm(x) @ self.table.weight.t()


class Cached(nn.Module):
    """One step of a decoder: keys and values of what came before go in, and come out longer by one."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(32, 96), nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, state: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        count = state.shape[0]
        q, k, v = self.qkv(self.norm(state)).view(count, 3, 4, 1, 8).unbind(1)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        shares = torch.softmax(q @ keys.transpose(2, 3) / 8**0.5, -1)
        return state + self.out((shares @ values).reshape(count, 32)), keys, values


class Experts(nn.Module):
    """A mixture of experts: the best two of four by a gate, the others masked."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(24, 4)
        self.wide, self.narrow = nn.Parameter(torch.randn(4, 24, 48) * 0.2), nn.Parameter(torch.randn(4, 48, 24) * 0.15)

    def forward(self, states: Tensor) -> Tensor:
        best, at = self.gate(states).softmax(-1).topk(2, -1)
        shares = torch.zeros_like(states[..., :4]).scatter(-1, at, best / best.sum(-1, keepdim=True))
        found = F.gelu(torch.einsum("nlw,ewh->nleh", states, self.wide))
        return states + torch.einsum("nleh,ehw,nle->nlw", found, self.narrow, shares)


class PatchSeries(nn.Module):
    """PatchTST: overlapping patches of several series through one transformer layer."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.place = nn.Linear(8, 24), nn.Parameter(torch.randn(1, 9, 24) * 0.3)
        self.body = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True, activation="gelu")
        self.head = nn.Linear(9 * 24, 6)

    def forward(self, series: Tensor) -> Tensor:
        count = series.shape[0]
        patches = series.transpose(1, 2).unfold(2, 8, 4)
        x = self.into(patches).flatten(0, 1) + self.place
        return self.head(self.body(x).flatten(1)).view(count, 5, 6).transpose(1, 2)


def __getattr__(name: str) -> object:
    """The kinds by their names in small letters: with realistic weights, where no data has to be seen."""
    kind = _PLAIN.get(name)
    if kind is None:
        raise AttributeError(name)
    return lambda: realistic(kind())


_PLAIN = {
    "encoder": Encoder,
    "torch_encoder": TorchEncoder,
    "torch_transformer": TorchTransformer,
    "decoder": Decoder,
    "cached": Cached,
    "experts": Experts,
    "patch_series": PatchSeries,
}
