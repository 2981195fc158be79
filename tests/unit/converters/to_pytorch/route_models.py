"""Models as users write them, and the routes that tests take them through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from transload.converters.to_onnx.onnx_from_pt2 import onnx_from_pt2
from transload.converters.to_onnx.onnx_from_source import onnx_from_source
from transload.converters.to_pytorch.pt2_from_source import pt2_from_source
from transload.converters.to_pytorch.torchscript_from_source import torchscript_from_source
from transload.models.job import Job
from transload.models.loading.build import build_model, call_model, name_outputs
from transload.models.loading.source_from_code import take_weights
from transload.models.probes.random_inputs import sample_inputs
from transload.models.signature import Array, Signature, parse_input
from transload.models.sources import read_source

USER_CODE = '''
import dataclasses
import math
import numpy as np
import operator
import torch
from torch import nn
from typing import Callable


@dataclasses.dataclass
class Out:
    logits: torch.Tensor
    hidden: tuple
    loss: torch.Tensor = None


class Mapped(nn.Module):
    """A dict in, a dict of tuples out, one value under two names."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)

    def forward(self, batch):
        y = self.lin(batch["x"])
        return {"last": y, "hidden": (batch["m"], y)}

    def example_inputs(self):
        return {"x": torch.ones(2, 4), "m": torch.ones(2, 5)}


class Keywords(nn.Module):
    """Keyword-only and optional inputs, a dataclass out."""

    def forward(self, x, scale=2.0, *, mask=None, bias):
        x = x * scale + bias
        return Out(x, (x + 1, None, bias)) if mask is None else Out(x * mask, (x,))

    def example_inputs(self):
        return {"x": torch.ones(2, 4), "bias": torch.ones(2, 4)}


class State(nn.Module):
    def forward(self, x, state):
        h, c = state
        return x + 2 * h, (h * c, [c - x])

    def example_inputs(self):
        return torch.ones(2, 4), (torch.ones(2, 4), torch.ones(2, 4))


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return x * 2


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)
        self.half()

    def forward(self, x):
        return self.lin(x.to(self.lin.weight.dtype)) * 2


def brain():
    return Half().bfloat16()


class Fixes(Half):
    def forward(self, x):
        return self.lin(x.half())


class Branches(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x * 3


class Loops(nn.Module):
    def forward(self, x):
        while x.abs().max() > 1:
            x = x / 2
        return x


class Numpy(nn.Module):
    def forward(self, x):
        if x.numpy().sum() > 0:
            return x * 2
        return x * 3


class Sized(nn.Module):
    def forward(self, x):
        return x[: int(x.abs().sum()) % 3]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Context(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)


class Custom(nn.Module):
    def forward(self, x):
        return Square.apply(x) + Context.apply(x + 1)


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        state = x[:, 0]
        for at in range(x.shape[1]):
            state = torch.tanh(self.inner(x[:, at]) + state)
        return state


class Cell(nn.Module):
    def forward(self, x, state=None):
        return torch.tanh(x if state is None else x + state)


class Nothing(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell()

    def forward(self, x):
        state = None
        for at in range(x.shape[1]):
            state = self.cell(x[:, at], state)
        return state


class Grown(nn.Module):
    def forward(self, x):
        state = None
        for at in range(x.shape[1]):  # from nothing
            state = x[:, at] if state is None else torch.tanh(x[:, at] + state)
        return state


class Downwards(nn.Module):
    def forward(self, x):
        state = x[:, 0]
        for at in reversed(range(x.shape[1])):
            state = torch.tanh(state + x[:, at])
        return state


class Handed(nn.Module):
    def called(self, function: Callable, x):
        return function(x)

    def forward(self, x):
        state = x[:, 0]
        for at in range(x.shape[1]):
            state = self.called(torch.tanh, state + x[:, at])
        return state


class Nameless(nn.Module):
    def forward(self, x):
        twice = lambda y: torch.tanh(2 * y)
        state = x[:, 0]
        for at in range(x.shape[1]):
            state = twice(state + x[:, at])
        return state


class Secret(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.tanh(x) + count(ctx)


def count(ctx):
    return len(ctx.needs_input_grad)


class Asked(nn.Module):
    def forward(self, x):
        state = x[:, 0]
        for at in range(x.shape[1]):
            state = Secret.apply(state + x[:, at])
        return state


class Bound(nn.Module):
    def __init__(self):
        super().__init__()
        self.square = Square.apply

    def forward(self, x):
        return self.square(x) + 1


class Slope(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def forward(self, x):
        return torch.vmap(torch.func.jacrev(self.net))(x)


class Length(nn.Module):
    def forward(self, x):
        return x * operator.index(x.shape[0])


class Lengths(nn.Module):  # the sum meets a size that another line has fixed
    def forward(self, x, lengths):
        mask = torch.arange(4).expand(operator.index(lengths.shape[0]), 4) < lengths[:, None]
        return (x * mask).sum(1)


class Rows(nn.Module):
    def forward(self, x):
        x = torch.nn.functional.max_pool2d(x[:, None, None], (1, 3), 1, (0, 1))[:, 0, 0]
        rows = x.shape[1] // 128 + 1
        return torch.cat([row - row.mean(1, keepdim=True) for row in x.chunk(rows, 1)], 1)


class Wide(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[1] < 40 else x * 3


class Chosen(nn.Module):
    def forward(self, x):
        return {True: torch.sin, False: torch.cos}[bool(x.shape[1] >= 40)](x)


class Often(nn.Module):  # no size that is checked goes round even once
    def forward(self, x):
        for at in range(x.shape[1] // 100):
            x = x + 1
        return x * 2


class Rooted(nn.Module):  # constant at every small size, and numpy is not compiled
    def forward(self, x):
        return x + float(np.int64(x.shape[1]) // 100)


class Tall(nn.Module):  # of two axes, where one is larger than it ever is in a check
    def forward(self, x):
        h, w = x.shape[1:]
        if h > 2 * w:
            x = x.mT
        return x[:, :, 0].sum(1)


class Flat(nn.Module):
    def forward(self, x):
        w, h = x.shape[1:]
        if h > 2 * w:
            x = x.mT
        return x[:, :, 0].sum(1)


class Apart(nn.Module):
    def forward(self, x):
        h, w = x.shape[1:]
        if h - w == 300:
            x = x.mT
        return x[:, :, 0].sum(1)


class Windows(nn.Module):  # a program of up to 8 steps has no window for more, and stops
    def forward(self, x):
        out = torch.zeros_like(x)
        for start in range(0, max(x.shape[1] - 8, 0) + 1, 4):
            end = min(start + 8, x.shape[1])
            out[:, start:end] += torch.softmax(x[:, start:end], dim=1)
        return out


class Strided(nn.Module):  # a number of two sizes, and no warning of the tracer's
    def forward(self, x):
        half = lambda n: n // 2  # what torch.jit.script does not take
        size, stride = list(x.shape), list(x.stride())
        size[1] = -(-size[1] // 2)
        stride[1] = stride[1] * 2
        stride[0] = half(2 * stride[0])
        return x.as_strided(size, stride)


class Asking(nn.Module):
    def forward(self, x):
        return x * (x.shape[1] if torch.onnx.is_in_onnx_export() else np.float64(x.shape[1]))


class Logarithm(nn.Module):
    def forward(self, x):
        return x * np.float64(math.log(x.shape[1], 16))


class Halved(nn.Module):
    def forward(self, x):
        half = lambda n: n // 2  # what torch.jit.script does not take
        assert x.shape[1] < 4096
        return x[:, : half(x.shape[1])]


class Rare(nn.Module):  # no sample takes the other way
    def forward(self, x):
        if x.abs().max() > 1000:
            x = x / 1000
        return x * 2


class RareUncompiled(nn.Module):
    def forward(self, x):
        if x.abs().max() > 1000:
            x = np.float32(1e-3) * x
        return x * 2


class Floors(nn.Module):
    def forward(self, x):
        half = x.shape[1] // 2
        return x // 3, x // -3, x >> 1, x % 3, x[:, :half]


class Divided(nn.Module):
    def forward(self, x):
        modes = [torch.div(x, by, rounding_mode=mode) for mode in ("floor", "trunc") for by in (3, -16, x % 5 + 1)]
        return *modes, torch.div(x, 3), torch.div(x.float(), 3, rounding_mode="floor")


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 2, batch_first=True)

    def forward(self, x, lengths):
        lengths = lengths.clamp(1, x.shape[1]).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        rows, (last, _) = self.rnn(packed)
        return nn.utils.rnn.pad_packed_sequence(rows, batch_first=True, total_length=x.shape[1])[0], last[0]


class Same(nn.Module):
    def forward(self, x):
        return {"x": x * 2}


class Exact(nn.Module):
    def forward(self, x):
        return torch.sin(x) if x.shape[1] == 80 else x


class Sides(nn.Module):
    def forward(self, x):
        return x.mT if x.shape[1] == x.shape[2] else x


class Backwards(nn.Module):
    def forward(self, x):
        rows = [x[:, 0]]
        for at in range(1, x.shape[1]):
            rows.append(torch.maximum(rows[-1] + 1, x[:, at]))
        last = rows[-1]
        for row in reversed(rows):
            last = last / 2 + row
        return last * 2


class Deprecated(Strided):  # as every model of transformers: the tracer asks for its properties
    @property
    def old_name(self):
        import warnings
        warnings.warn("old_name goes with the next version", FutureWarning)
        return 1


class Triangle(nn.Module):
    def forward(self, x, y):
        both = torch.einsum("btc,bsc->bts", x, y) + x + y
        return both * torch.tril_indices(x.shape[1], x.shape[1]).sum()


class Cached(nn.Module):
    def forward(self, x, past):
        if past.shape[1] == 0:  # torch.export takes for granted that it is not
            return x.cumsum(1)
        return past[:, -1:] + x.cumsum(1)


class Aligned(nn.Module):  # padded and cut: a way of its own that gives the same
    def forward(self, x):
        if x.shape[1] % 4 == 2:
            return torch.cat([x, x], 1)[:, : x.shape[1]] * 2
        return x * 2


class Deep(nn.Module):
    """Small pictures are one pixel wide in the middle of it."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(*(nn.Conv2d(2, 2, 3, stride=2, padding=1) for _ in range(4)))

    def forward(self, x):
        return self.down(x).mean((2, 3))


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(50))

    def forward(self, x):
        return x + self.table[: x.shape[1]]
'''


PLAIN = "x=float32[batch,4]"


WIDE = "x=float32[batch,time]"


Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]


def source(tmp_path: Path, name: str, *inputs: str) -> Path:
    (tmp_path / "mine.py").write_text(USER_CODE)
    out = tmp_path / "source"
    out.mkdir()
    options = {
        "ref": f"mine.py:{name}",
        "root": str(tmp_path),
        "inputs": [parse_input(each).to_json() for each in inputs],
    }
    take_weights(Job({}, out, options))
    return out


def run_step(step: Callable[[Job], Mapping[str, Any]], start: Path, name: str) -> Path:
    out = start.parent / name
    out.mkdir()
    step(Job({"source": start}, out, {}))
    return out


def torch_runner(module: Any, signature: Signature) -> Run:
    names = [spec.name for spec in signature.outputs]

    def run(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        given = module(*(torch.from_numpy(feeds[spec.name].copy()) for spec in signature.inputs))
        return {name: value.numpy() for name, value in name_outputs(given, names).items()}

    return run


def onnx_runner(folder: Path, signature: Signature) -> Run:
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    names = [spec.name for spec in signature.outputs]
    return lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True))


def runner_of(kind: str, start: Path, signature: Signature) -> Run:
    if kind == "pt2":
        return torch_runner(torch.export.load(run_step(pt2_from_source, start, "a") / "model.pt2").module(), signature)
    if kind == "torchscript":
        folder = run_step(torchscript_from_source, start, "b")
        return torch_runner(torch.jit.load(next(folder.glob("model.*"))), signature)
    if kind == "older":
        return onnx_runner(run_step(onnx_from_source, start, "c"), signature)
    return onnx_runner(run_step(onnx_from_pt2, run_step(pt2_from_source, start, "a"), "d"), signature)


def check_route(start: Path, kind: str) -> None:
    """Two batches, samples of either sign, small and large."""
    signature = read_source(start).signature
    run, model = runner_of(kind, start, signature), build_model(start)
    for batch, by in ((1, 1), (4, 1), (4, -1), (2, 0.01), (2, 30)):
        drawn = sample_inputs(signature, batch, seed=batch)
        feeds = {name: (value * by).astype(value.dtype) for name, value in drawn.items()}
        with torch.no_grad():
            inputs = [torch.from_numpy(feeds[spec.name].copy()) for spec in signature.inputs]
            wanted = call_model(model, signature, inputs)
        got = run(feeds)
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value.numpy(), rtol=1e-4, atol=1e-5, err_msg=f"{kind} {name} {by}")


def line_at(tmp_path: Path, start: str) -> str:
    lines = [(number, line.strip()) for number, line in enumerate(USER_CODE.splitlines(), 1)]
    number, line = next(each for each in lines if each[1].startswith(start))
    return f"{tmp_path}/mine.py:{number} (`{line}`)"
