"""Kinds of networks that go along a sequence: recurrent ones, scans, convolutions, dynamic programming."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from zoo_weights import realistic


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


def __getattr__(name: str) -> object:
    """The kinds by their names in small letters: with realistic weights, where no data has to be seen."""
    kind = _PLAIN.get(name)
    if kind is None:
        raise AttributeError(name)
    return lambda: realistic(kind())


_PLAIN = {
    "streaming": Streaming,
    "projected": Projected,
    "cells": Cells,
    "translator": Translator,
    "state_space": StateSpace,
    "linear_state_space": LinearStateSpace,
    "scan": Scan,
    "conditional": Conditional,
    "forecast": Forecast,
    "temporal": Temporal,
    "text_convolution": TextConvolution,
    "viterbi": Viterbi,
}
