"""Kinds of networks that work on sequences: text, sound, series. Their length is dynamic where their kind allows it."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from zoo_weights import noise, realistic


class Recurrent(nn.Module):
    """Two layers in both directions over embedded tokens."""

    def __init__(self, kind: type[nn.Module], **more: object) -> None:
        super().__init__()
        self.table = nn.Embedding(200, 24)
        self.body = kind(24, 32, 2, batch_first=True, bidirectional=True, **more)
        self.head = nn.Linear(64, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.body(self.table(tokens))[0].mean(1))


class Streaming(nn.Module):
    """An LSTM whose state goes in and comes out; the batch comes first in all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(10, 16, 1, batch_first=True), nn.Linear(16, 1)

    def forward(self, chunk: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found, (hidden, cell) = self.body(chunk, (hidden.transpose(0, 1), cell.transpose(0, 1)))
        return self.head(found).sigmoid(), hidden.transpose(0, 1), cell.transpose(0, 1)


class Projected(nn.Module):
    """A GRU from a learnt state, and the last output."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.start = nn.GRU(6, 20, batch_first=True), nn.Parameter(torch.randn(1, 1, 20))
        self.head = nn.Linear(20, 3)

    def forward(self, series: Tensor) -> Tensor:
        found, last = self.body(series, self.start.expand(-1, series.shape[0], -1).contiguous())
        return self.head(found[:, -1] + last[0])


class Cells(nn.Module):
    """LSTMCell and GRUCell, stepped in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.LSTMCell(6, 12), nn.GRUCell(12, 8), nn.Linear(8, 2)

    def forward(self, series: Tensor) -> Tensor:
        hidden = cell = torch.zeros_like(series[:, 0, :1]).expand(-1, 12)
        top = torch.zeros_like(series[:, 0, :1]).expand(-1, 8)
        for at in range(5):
            hidden, cell = self.first(series[:, at], (hidden, cell))
            top = self.second(hidden, top)
        return self.head(top)


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


class Translator(nn.Module):
    """A GRU encoder and three steps of a decoder that looks back at it."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.encoder = nn.Embedding(120, 20), nn.GRU(20, 24, batch_first=True)
        self.step, self.look, self.head = nn.GRUCell(20 + 24, 24), nn.Linear(24, 24), nn.Linear(24, 120)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        memory, last = self.encoder(self.table(tokens))
        hidden, word, found = last[0], tokens[:, 0], []
        for _ in range(3):
            shares = torch.softmax((memory @ self.look(hidden)[:, :, None]).squeeze(2), -1)
            hidden = self.step(torch.cat([self.table(word), (shares[:, None] @ memory).squeeze(1)], -1), hidden)
            found.append(self.head(hidden))
            word = found[-1].argmax(-1)
        return torch.stack(found, 1), word


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


class StateSpace(nn.Module):
    """A selective scan (Mamba): the state goes through 12 steps, with step sizes and gates made of the input."""

    def __init__(self, width: int = 16, state: int = 8) -> None:
        super().__init__()
        self.into, self.mix = nn.Linear(width, 2 * width), nn.Conv1d(width, width, 4, padding=3, groups=width)
        self.step, self.where = nn.Linear(width, width), nn.Linear(width, 2 * state)
        self.decay, self.skip = nn.Parameter(torch.rand(width, state) + 0.5), nn.Parameter(torch.rand(width))
        self.out = nn.Linear(width, width)

    def forward(self, series: Tensor) -> Tensor:
        x, gate = self.into(series).chunk(2, -1)
        x = F.silu(self.mix(x.transpose(1, 2))[..., :12].transpose(1, 2))
        step = F.softplus(self.step(x))
        write, read = self.where(x).chunk(2, -1)
        state, found = torch.zeros_like(x[:, 0, :, None]).expand(-1, -1, 8), []
        for at in range(12):
            fade = torch.exp(-step[:, at, :, None] * self.decay)
            state = fade * state + (step[:, at] * x[:, at])[..., None] * write[:, at, None]
            found.append((state * read[:, at, None]).sum(-1))
        return self.out((torch.stack(found, 1) + x * self.skip) * F.silu(gate))


class LinearStateSpace(nn.Module):
    """A diagonal state space as a convolution over the whole length: the kernel is made of powers."""

    def __init__(self, width: int = 12, state: int = 6) -> None:
        super().__init__()
        self.decay, self.write = nn.Parameter(torch.rand(width, state)), nn.Parameter(torch.randn(width, state))
        self.mix = nn.Linear(width, width)

    def forward(self, series: Tensor) -> Tensor:
        length = series.shape[1]
        times = torch.arange(length)
        kernel = (self.write[:, :, None] * torch.exp(-self.decay[:, :, None] * times)).sum(1)
        apart = times[:, None] - times[None]
        wide = torch.where(apart >= 0, kernel[:, apart.clamp(min=0)], torch.zeros(()))
        return self.mix(torch.einsum("cts,nsc->ntc", wide, series)) + series


class Scan(nn.Module):
    """A loop that stays a loop: torch's scan over a dynamic number of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.keep = nn.Linear(6, 10), nn.Linear(10, 10)

    def forward(self, series: Tensor) -> tuple[Tensor, Tensor]:
        from torch._higher_order_ops.scan import scan

        def step(state: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
            state = torch.tanh(now + self.keep(state))
            return state, state.clone()

        steps = self.into(series).transpose(0, 1).clone(memory_format=torch.contiguous_format)
        last, found = scan(step, torch.zeros_like(steps[0]), steps, dim=0)
        return last, found.transpose(0, 1)


class Conditional(nn.Module):
    """A branch that stays a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, features: Tensor) -> Tensor:
        found = self.linear(features)
        return torch.cond(found.sum() > 0, lambda x: torch.relu(x) + 1, lambda x: x * 0.1 - 1, (found,))


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


class Forecast(nn.Module):
    """N-BEATS: blocks that take their part out of the series and add theirs to the forecast."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 24 + 8))
                for _ in range(3)
            ]
        )

    def forward(self, series: Tensor) -> Tensor:
        middle = series.mean(1, keepdim=True)
        spread = series.std(1, keepdim=True) + 1e-3
        rest, found = (series - middle) / spread, torch.zeros(())
        for block in self.blocks:
            back, ahead = block(rest).split([24, 8], 1)
            rest, found = rest - back, found + ahead
        return found * spread + middle


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


class Temporal(nn.Module):
    """A temporal convolution network: causal padding cut off again, weight norm folded in, residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [
                weight_norm(nn.Conv1d(before, 16, 3, padding=2 * 2**at, dilation=2**at))
                for at, before in enumerate((4, 16, 16))
            ]
        )  # fmt: skip
        self.skip, self.head = nn.Conv1d(4, 16, 1), nn.Linear(16, 2)

    def forward(self, series: Tensor) -> Tensor:
        x = series.transpose(1, 2)
        for at, conv in enumerate(self.convs):
            y = F.relu(conv(x)[..., : -2 * 2**at])
            x = y + (self.skip(x) if at == 0 else x)
        return self.head(x[..., -1])


class TextConvolution(nn.Module):
    """Kim's classifier: widths 3, 4 and 5 over embedded tokens, the maximum over time, and a count of known words."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(500, 24, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(24, 16, width, padding=2) for width in (3, 4, 5)])
        self.head = nn.Linear(49, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens).transpose(1, 2)
        parts = [F.relu(conv(x)).amax(2) for conv in self.convs]
        return self.head(torch.cat([*parts, (tokens > 0).float().mean(1, keepdim=True)], 1))


class Viterbi(nn.Module):
    """A tagger whose best path is found by dynamic programming over ten steps, and traced back."""

    def __init__(self) -> None:
        super().__init__()
        self.emit, self.move = nn.Linear(6, 5), nn.Parameter(torch.randn(5, 5))

    def forward(self, series: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.emit(series)
        best, back = scores[:, 0], []
        for at in range(1, 10):
            found, where = (best[:, :, None] + self.move).max(1)
            best = found + scores[:, at]
            back.append(where)
        score, tag = best.max(1)
        path = [tag]
        for where in reversed(back):
            tag = where.gather(1, tag[:, None]).squeeze(1)
            path.append(tag)
        return score, torch.stack(path[::-1], 1)


def lstm() -> nn.Module:
    return realistic(Recurrent(nn.LSTM))


def gru() -> nn.Module:
    return realistic(Recurrent(nn.GRU))


def rnn() -> nn.Module:
    return realistic(Recurrent(nn.RNN, nonlinearity="relu"))


def sound() -> nn.Module:
    return realistic(Sound(), *noise(6, 1, 2000))


def conformer() -> nn.Module:
    return realistic(Conformer(), *noise(6, 48, 40))


def spectrogram() -> nn.Module:
    return realistic(Spectrogram(), *noise(6, 2000))


def __getattr__(name: str) -> object:
    """`Streaming` and the like as they are named: with realistic weights, where no data has to be seen."""
    kind = _PLAIN.get(name)
    if kind is None:
        raise AttributeError(name)
    return lambda: realistic(kind())


_PLAIN = {
    "streaming": Streaming, "projected": Projected, "cells": Cells, "encoder": Encoder, "torch_encoder": TorchEncoder,
    "torch_transformer": TorchTransformer, "decoder": Decoder, "cached": Cached, "translator": Translator,
    "experts": Experts, "state_space": StateSpace, "linear_state_space": LinearStateSpace, "scan": Scan,
    "conditional": Conditional, "wavenet": WaveNet, "separator": Separator, "vocoder": Vocoder, "forecast": Forecast,
    "patch_series": PatchSeries, "temporal": Temporal, "text_convolution": TextConvolution, "viterbi": Viterbi,
}  # fmt: skip
