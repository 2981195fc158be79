"""Out of PyTorch: models of every kind of call and of control flow become programs, traces and ONNX that answer as they
do on whichever way data takes, or are refused with the line that stands in the way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from transload.converters.to_onnx.onnx_from_pt2 import onnx_from_pt2
from transload.converters.to_onnx.onnx_from_source import onnx_from_source
from transload.converters.to_pytorch import tracing
from transload.converters.to_pytorch.export_reasons import OneWay, held
from transload.converters.to_pytorch.pt2_from_source import export, pt2_from_source
from transload.converters.to_pytorch.torchscript_from_source import torchscript_from_source
from transload.models.errors import BadRequest, Refused
from transload.models.job import Job
from transload.models.loading.build import build_model, call_model, name_outputs
from transload.models.loading.half_precision import in_float32
from transload.models.loading.source_from_code import take_weights
from transload.models.probes.random_inputs import sample_inputs
from transload.models.signature import Array, Signature, parse_input
from transload.models.sources import read_source

CODE = '''
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


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporters announce their own end, and what they trace
        yield


def source(tmp_path: Path, name: str, *inputs: str) -> Path:
    (tmp_path / "mine.py").write_text(CODE)
    out = tmp_path / "source"
    out.mkdir()
    options = {
        "ref": f"mine.py:{name}",
        "root": str(tmp_path),
        "inputs": [parse_input(each).to_json() for each in inputs],
    }
    take_weights(Job({}, out, options))
    return out


def made(step: Callable[[Job], Mapping[str, Any]], start: Path, name: str) -> Path:
    out = start.parent / name
    out.mkdir()
    step(Job({"source": start}, out, {}))
    return out


def in_torch(module: Any, signature: Signature) -> Run:
    names = [spec.name for spec in signature.outputs]

    def run(feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        given = module(*(torch.from_numpy(feeds[spec.name].copy()) for spec in signature.inputs))
        return {name: value.numpy() for name, value in name_outputs(given, names).items()}

    return run


def in_onnxruntime(folder: Path, signature: Signature) -> Run:
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    names = [spec.name for spec in signature.outputs]
    return lambda feeds: dict(zip(names, session.run(names, dict(feeds)), strict=True))


def run_of(kind: str, start: Path, signature: Signature) -> Run:
    if kind == "pt2":
        return in_torch(torch.export.load(made(pt2_from_source, start, "a") / "model.pt2").module(), signature)
    if kind == "torchscript":
        folder = made(torchscript_from_source, start, "b")
        return in_torch(torch.jit.load(next(folder.glob("model.*"))), signature)
    if kind == "older":
        return in_onnxruntime(made(onnx_from_source, start, "c"), signature)
    return in_onnxruntime(made(onnx_from_pt2, made(pt2_from_source, start, "a"), "d"), signature)


def check(start: Path, kind: str) -> None:
    """Two batches, samples of either sign, small and large."""
    signature = read_source(start).signature
    run, model = run_of(kind, start, signature), build_model(start)
    for batch, by in ((1, 1), (4, 1), (4, -1), (2, 0.01), (2, 30)):
        drawn = sample_inputs(signature, batch, seed=batch)
        feeds = {name: (value * by).astype(value.dtype) for name, value in drawn.items()}
        with torch.no_grad():
            inputs = [torch.from_numpy(feeds[spec.name].copy()) for spec in signature.inputs]
            wanted = call_model(model, signature, inputs)
        got = run(feeds)
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value.numpy(), rtol=1e-4, atol=1e-5, err_msg=f"{kind} {name} {by}")


@pytest.mark.parametrize("kind", ["pt2", "torchscript", "older", "dynamo"])
@pytest.mark.parametrize("name", ["Mapped", "Keywords", "State"])
def test_nested_calls_and_results_go_every_way(name: str, kind: str, tmp_path: Path) -> None:
    check(source(tmp_path, name), kind)


@pytest.mark.parametrize("kind", ["pt2", "torchscript", "older", "dynamo"])
@pytest.mark.parametrize("name", ["Counts", "Half", "brain", "Custom"])
def test_buffers_halves_and_custom_functions_go_every_way(name: str, kind: str, tmp_path: Path) -> None:
    check(source(tmp_path, name, PLAIN), kind)


@pytest.mark.parametrize("kind", ["torchscript", "older"])
@pytest.mark.parametrize("name", ["Branches", "Loops"])
def test_a_way_that_data_decides_is_kept_by_compiling(name: str, kind: str, tmp_path: Path) -> None:
    check(source(tmp_path, name, PLAIN), kind)


def test_rows_of_given_lengths_go_through_the_older_exporter(tmp_path: Path) -> None:
    check(source(tmp_path, "Packed", "x=float32[batch,time,3]", "lengths=int64[batch]"), "older")


def test_inputs_may_be_left_out_where_they_have_defaults_and_taken_where_they_are_named(tmp_path: Path) -> None:
    start = source(tmp_path, "Keywords", "mask=float32[batch,4]", "bias=float32[batch,4]", "x=float32[batch,4]")
    assert [spec.name for spec in read_source(start).signature.outputs] == ["logits", "hidden_0"]
    check(start, "pt2")


def test_a_program_has_the_signatures_names(tmp_path: Path) -> None:
    folder = made(pt2_from_source, source(tmp_path, "Mapped"), "a")
    program = torch.export.load(folder / "model.pt2")
    assert [str(name) for name in program.graph_signature.user_inputs] == ["x", "m"]


WHERE = "compute both and choose with torch.where, or write "
STOPPED = "write that line with operators of torch alone, or name a target that another route leads to"
REFUSALS = {
    "Branches": (pt2_from_source, PLAIN, "if x.sum() > 0:",
                 "the model takes one way or another by its data, at {line}\n"
                 f"  fix: {WHERE}the branch as torch.cond"),
    "Loops": (pt2_from_source, PLAIN, "while x.abs()", "the model takes one way or another by its data, at {line}\n"
              f"  fix: {WHERE}the branch as torch.cond"),
    "Sized": (pt2_from_source, PLAIN, "return x[: int(", "the model makes a Python number of its data, at {line}\n"
              "  fix: keep every size one that the inputs' shapes tell: mask or pad in place of cutting by a value"),
    "Numpy": (torchscript_from_source, PLAIN, "if x.numpy()",
              "the model takes one way or another by its data, at {line}: a trace keeps one of them; compiling its "
              "source fails at {line}: 'Tensor (inferred)' object has no attribute or method 'numpy'\n"
              f"  fix: {WHERE}forward as torch.jit.script takes it"),
    "Bound": (torchscript_from_source, PLAIN, "return self.square(x)",
              "TorchScript cannot hold a torch.autograd.Function that is called by another name, at {line}\n"
              "  fix: call it as NAME.apply(...) there, in place of a name that was bound to it before"),
    "Slope": (pt2_from_source, PLAIN, "return torch.vmap(",
              "torch.export takes no derivatives of torch.func, at {line}\n"
              "  fix: leave the derivative out of forward, or write it out as a formula of its own"),
    "Length": (pt2_from_source, PLAIN, "return x * operator.index",
               "the axis batch of x cannot be dynamic: the model makes its size a constant at {line}\n"
               "  fix: keep it a size there, as x.shape[0] is and what range(...) and operator.index(...) take is not; "
               "or fix it, as in --input x=float32[SIZE,4]"),
    "Rows": (pt2_from_source, WIDE, "return torch.cat([row - row.mean",
             "the model takes another way at other sizes of time at {line}; one program holds for 1..127 alone\n"
             "  fix: say so, as in --input x=float32[batch,time=1..127], or compute both ways"),
    "Wide": (pt2_from_source, WIDE, "return x * 2 if x.shape[1]",
             "the model takes another way at other sizes of time at {line}; one program holds for 1..39 alone\n"
             "  fix: say so, as in --input x=float32[batch,time=1..39], or compute both ways"),
    "Chosen": (torchscript_from_source, WIDE, "return {True: torch.sin",
               "the model takes another way at other sizes of time at {line}; one program holds for 1..39 alone; "
               "compiling its source fails at {line}: builtin cannot be used as a value\n"
               "  fix: say so, as in --input x=float32[batch,time=1..39], or compute both ways"),
    "Exact": (pt2_from_source, WIDE, "return torch.sin(x) if x.shape[1] == 80",
              "the model takes another way at the size 80 of time at {line}\n"
              "  fix: compute both ways, or give --input bounds without that size"),
    "Sides": (pt2_from_source, "x=float32[batch,height,width]", "return x.mT if x.shape[1] == x.shape[2]",
               "the model takes another way where height and width are of one size at {line}\n"
               "  fix: compute both ways, or fix one of them to a size with --input"),
}  # fmt: skip


def at(tmp_path: Path, start: str) -> str:
    lines = [(number, line.strip()) for number, line in enumerate(CODE.splitlines(), 1)]
    number, line = next(each for each in lines if each[1].startswith(start))
    return f"{tmp_path}/mine.py:{number} (`{line}`)"


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_carried_is_refused_with_the_users_line(name: str, tmp_path: Path) -> None:
    step, inputs, line, words = REFUSALS[name]
    start = source(tmp_path, name, inputs)
    with pytest.raises(Refused) as caught:
        made(step, start, "made")
    assert str(caught.value) == words.format(line=at(tmp_path, line))


def test_a_size_that_is_made_a_constant_is_named_with_the_line_that_does_it(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        made(pt2_from_source, source(tmp_path, "Lengths", PLAIN, "lengths=float32[batch]"), "made")
    assert caught.value.what == (
        "the axis batch of x cannot be dynamic: the model makes its size a constant at "
        f"{at(tmp_path, 'mask = torch.arange(4).expand(operator')}"
    )


def test_a_line_that_axes_are_only_as_long_as_each_other_for_is_not_blamed(tmp_path: Path) -> None:
    start = source(tmp_path, "Triangle", "x=float32[batch,time,time]", "y=float32[batch,time,time]")
    with pytest.raises(Refused) as caught:
        made(pt2_from_source, start, "made")
    assert caught.value.what == (
        "the axis time of x cannot be dynamic: the model makes its size a constant at "
        f"{at(tmp_path, 'return both * torch.tril_indices')}"
    )


def test_what_torch_export_stops_at_is_named_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        made(pt2_from_source, source(tmp_path, "Numpy", PLAIN), "made")
    assert caught.value.what.startswith(f"torch.export stops at {at(tmp_path, 'if x.numpy()')}: ")
    assert caught.value.fix == STOPPED


def test_bounds_that_a_branch_on_sizes_keeps_to_make_it_one_way(tmp_path: Path) -> None:
    check(source(tmp_path, "Wide", "x=float32[batch,time=1..39]"), "pt2")


@pytest.mark.parametrize("kind", ["torchscript", "older"])
def test_a_way_that_a_size_decides_is_kept_by_compiling(kind: str, tmp_path: Path) -> None:
    start = source(tmp_path, "Wide", WIDE)
    signature, model = read_source(start).signature, build_model(start)
    run = run_of(kind, start, signature)
    for time in (5, 39, 40, 41):  # a trace of the first is right at the second, and wrong from 40 on
        x = torch.randn(2, time)
        np.testing.assert_allclose(run({"x": x.numpy()})["output"], model(x).numpy(), rtol=1e-5)


@pytest.mark.parametrize("kind", ["torchscript", "older"])
def test_a_loop_over_an_axis_is_kept_by_compiling(kind: str, tmp_path: Path) -> None:
    start = source(tmp_path, "Steps", "x=float32[batch,time,4]")
    signature, model = read_source(start).signature, build_model(start)
    run = run_of(kind, start, signature)
    for time in (5, 2, 9):  # a trace goes round as often as its example was long
        x = torch.randn(2, time, 4)
        np.testing.assert_allclose(run({"x": x.numpy()})["output"], model(x).numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["torchscript", "older"])
@pytest.mark.parametrize(("name", "words"), [("Often", WIDE), ("Rare", PLAIN)])
def test_a_way_that_no_sample_and_no_checked_size_takes_is_kept(
    name: str, words: str, kind: str, tmp_path: Path
) -> None:
    start = source(tmp_path, name, words)
    signature = read_source(start).signature
    run, model = run_of(kind, start, signature), build_model(start)
    for x in (torch.rand(2, 4), 5000 * torch.rand(2, 4), torch.rand(2, 250 if words is WIDE else 4)):
        np.testing.assert_allclose(run({"x": x.numpy()})["output"], model(x).numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "least", "sizes"), [("Tall", 16, (33, 16)), ("Flat", 16, (16, 33)), ("Apart", 224, (524, 224))]
)
def test_a_way_that_a_relation_of_two_axes_decides_is_seen_whichever_is_the_larger(
    name: str, least: int, sizes: tuple[int, int], tmp_path: Path
) -> None:
    start = source(tmp_path, name, f"x=float32[batch,height={least}..,width={least}..]")
    words = "another way at height={} and width={} at .*`if h ".format(*sizes)
    with pytest.raises(Refused, match=words):
        made(pt2_from_source, start, "made")
    run, model = run_of("torchscript", start, read_source(start).signature), build_model(start)
    for height, width in ((100, 20), (20, 100), (20, 21), sizes):
        x = torch.randn(2, height, width)
        np.testing.assert_allclose(run({"x": x.numpy()})["output"], model(x).numpy(), rtol=1e-4, atol=1e-5)


def test_a_size_at_which_the_program_alone_stops_is_left_out_of_it(tmp_path: Path) -> None:
    start = source(tmp_path, "Windows", "x=float32[batch,time,3]")
    with pytest.raises(Refused, match=r"another way at the size 9 of time at .*`for start in range"):
        made(pt2_from_source, start, "made")
    run, model = run_of("older", start, read_source(start).signature), build_model(start)
    for time in (5, 9, 30):
        x = torch.randn(2, time, 3)
        np.testing.assert_allclose(run({"x": x.numpy()})["output"], model(x).numpy(), rtol=1e-5)


def test_a_way_that_is_for_what_is_empty_is_seen_where_an_axis_may_be(tmp_path: Path) -> None:
    start = source(tmp_path, "Cached", "x=float32[batch,time]", "past=float32[batch,past=0..]")
    with pytest.raises(OneWay) as caught:
        made(pt2_from_source, start, "made")
    assert str(caught.value) == (
        "the model takes another way where past is empty\n"
        "  fix: leave that way out where the other one answers as well, or say that it never is: past=1.."
    )
    run, model = run_of("older", start, read_source(start).signature), build_model(start)
    for length in (0, 1, 6):
        x, past = torch.randn(2, 4), torch.randn(2, length)
        np.testing.assert_allclose(run({"x": x.numpy(), "past": past.numpy()})["output"], model(x, past), rtol=1e-5)


@pytest.mark.parametrize("step", [torchscript_from_source, onnx_from_source])
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Strided", "return x.as_strided(size, stride)"),
        ("Deprecated", "return x.as_strided(size, stride)"),
        ("Logarithm", "return x * np.float64(math.log"),
    ],
)
def test_a_trace_that_answers_otherwise_is_never_handed_on(
    name: str, line: str, step: Callable[[Job], Mapping[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(Refused) as caught:
        made(step, source(tmp_path, name, WIDE), "made")
    assert caught.value.what.startswith(
        f"the model makes a number of Python of a size at {at(tmp_path, line)}: a trace keeps it, and answers "
        "otherwise than the model at batch=5 and time=8; compiling its source fails"
    )


def test_a_loop_that_cannot_be_compiled_is_named_with_its_line_and_where_compiling_stops(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        made(torchscript_from_source, source(tmp_path, "Backwards", "x=float32[batch,time]"), "made")
    assert str(caught.value) == (
        f"the model takes other steps at other sizes at {at(tmp_path, 'rows.append')}, as a loop over an axis does: a "
        "trace keeps those of its example, and answers otherwise than the model at batch=5 and time=8; compiling its "
        f"source fails at {at(tmp_path, 'for row in reversed')}: Expected a value of type 'Tensor' for argument '0' "
        "but instead found type 'List[Tensor]'\n"
        "  fix: take its parts by an index there (range(n - 1, -1, -1)), or turn it round by .flip(1); or give the "
        "size that it is for, as in --input x=float32[batch,SIZE]"
    )


MENDS = {
    "Nothing": ("state = self.cell(", "begin with a tensor of zeros before the loop, in place of None"),
    "Grown": ("state = x[:, at] if state", "begin with a tensor of zeros before the loop, in place of None"),
    "Downwards": ("for at in reversed(range", "write range(n - 1, -1, -1) there, in place of reversed(range(n))"),
    "Handed": ("def called(self, function", "call the function itself there, in place of one that is handed over"),
    "Nameless": ("twice = lambda", "write a method of the module there, in place of the lambda"),
    "Asked": (
        "return len(ctx.needs_input_grad)",
        "write forward's expression there, in place of the torch.autograd.Function",
    ),
}


@pytest.mark.parametrize("name", MENDS)
def test_where_compiling_stops_is_said_with_what_to_write_there(name: str, tmp_path: Path) -> None:
    line, mend = MENDS[name]
    with pytest.raises(Refused) as caught:
        made(torchscript_from_source, source(tmp_path, name, "x=float32[batch,time]"), "made")
    assert f"; compiling its source fails at {at(tmp_path, line)}: " in caught.value.what
    assert caught.value.fix == f"{mend}; or give the size that it is for, as in --input x=float32[batch,SIZE]"


def test_a_loop_over_an_axis_is_left_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        made(pt2_from_source, source(tmp_path, "Grown", "x=float32[batch,time]"), "made")
    assert str(caught.value) == (
        "the axis time of x cannot be dynamic: the model makes its size a constant at "
        f"{at(tmp_path, 'for at in range(x.shape[1]):  # from nothing')}\n"
        "  fix: leave the loop, which goes by compiling the source, and mend the line that another route stops at; or "
        "compute on the whole axis at once; or fix it, as in --input x=float32[batch,SIZE]"
    )


def test_a_way_that_is_for_the_exporter_alone_is_what_is_asked(tmp_path: Path) -> None:
    start = source(tmp_path, "Asking", WIDE)
    run = run_of("older", start, read_source(start).signature)
    np.testing.assert_allclose(run({"x": np.ones((2, 9), np.float32)})["output"], np.full((2, 9), 9))


@pytest.mark.parametrize("left_out", [(), [{"batch": 2, "time": 9}]])
def test_sizes_that_are_left_out_of_a_program_alone_are_in_a_trace(
    left_out: Sequence[Mapping[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = OneWay("the program stops", fix="compute both ways")
    refused.left_out = left_out
    monkeypatch.setattr(tracing, "other_way", lambda *_: refused)
    start = source(tmp_path, "Halved", WIDE)
    if left_out:
        check(start, "torchscript")
    else:
        with pytest.raises(OneWay, match="the program stops"):
            made(torchscript_from_source, start, "made")


@pytest.mark.parametrize("step", [torchscript_from_source, onnx_from_source])
def test_a_number_that_is_the_same_at_every_small_size_is_refused(
    step: Callable[[Job], Mapping[str, Any]], tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="makes a number of Python of a size"):
        made(step, source(tmp_path, "Rooted", WIDE), "made")


@pytest.mark.parametrize("step", [torchscript_from_source, onnx_from_source])
def test_what_a_trace_keeps_of_one_answer_is_said(step: Callable[[Job], Mapping[str, Any]], tmp_path: Path) -> None:
    start, out = source(tmp_path, "RareUncompiled", PLAIN), tmp_path / "made"
    out.mkdir()
    note = step(Job({"source": start}, out, {}))["note"]
    assert note.startswith("it keeps the one answer that samples got at ")
    assert "(`if x.abs().max() > 1000:`)" in note


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_whole_numbers_below_zero_are_divided_and_shifted_as_pytorch_does(dtype: str, tmp_path: Path) -> None:
    start = source(tmp_path, "Floors", f"x={dtype}[batch,time]")
    run, model = run_of("older", start, read_source(start).signature), build_model(start)
    for x in (np.arange(-8, 8).reshape(2, 8).astype(dtype), np.array([[99], [np.iinfo(dtype).min]]).astype(dtype)):
        for got, want in zip(run({"x": x}).values(), model(torch.from_numpy(x)), strict=True):
            np.testing.assert_array_equal(got, want.numpy())


def test_whole_numbers_are_divided_as_pytorch_does_at_any_size(tmp_path: Path) -> None:
    start = source(tmp_path, "Divided", "x=int64[batch,time]")
    run, model = run_of("dynamo", start, read_source(start).signature), build_model(start)
    for x in (torch.arange(-8, 8).reshape(2, 8), torch.tensor([[2**24 + 1], [-(2**61) - 1]])):
        for got, want in zip(run({"x": x.numpy()}).values(), model(x), strict=True):
            np.testing.assert_array_equal(got, want.numpy())


def test_an_input_and_an_output_of_one_name_are_refused_for_onnx(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="an input and an output are both called x"):
        made(onnx_from_source, source(tmp_path, "Same", PLAIN), "made")


def test_a_way_that_some_sizes_take_and_that_gives_the_same_is_no_other_way(tmp_path: Path) -> None:
    made(pt2_from_source, source(tmp_path, "Aligned", WIDE), "a")


def test_a_program_of_a_deep_network_is_good_for_pictures_of_any_size(tmp_path: Path) -> None:
    start = source(tmp_path, "Deep", "x=float32[batch,2,height,width]")
    signature = read_source(start).signature
    assert held(export(build_model(start), signature), build_model(start), signature).narrow, "of small ones alone"
    program = torch.export.load(made(pt2_from_source, start, "a") / "model.pt2").module()
    for height, width in ((1, 1), (5, 7), (1, 9), (96, 75)):
        x = torch.randn(2, 2, height, width)
        torch.testing.assert_close(program(x), build_model(start)(x))


def test_a_limit_of_the_model_itself_is_no_branch(tmp_path: Path) -> None:
    start = source(tmp_path, "Table", WIDE)
    (tmp_path / "made").mkdir()
    facts = pt2_from_source(Job({"source": start}, tmp_path / "made", {}))
    assert facts["limits"] == {"time": [1, 50]}


@pytest.mark.parametrize(("name", "half"), [("Half", "float16"), ("brain", "bfloat16")])
def test_half_precision_is_carried_in_float32_and_its_own_distance_said(name: str, half: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "out").mkdir()
    spec = {"name": "x", "dtype": "float16", "shape": ["batch", 4]}
    facts = take_weights(Job({}, tmp_path / "out", {"ref": f"mine.py:{name}", "root": str(tmp_path), "inputs": [spec]}))
    assert facts["signature"]["inputs"][0]["dtype"] == facts["signature"]["outputs"][0]["dtype"] == "float32"
    said, _, noise = facts["notes"][0].partition(" lies ")
    assert said == f"its {half} weights are carried in float32; its own {half} arithmetic"
    assert 30 < int(noise.split()[0]) < 90
    model = build_model(tmp_path / "out")
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert torch.equal(model.lin.weight, model.lin.weight.to(getattr(torch, half)).float()), "the same values"


def test_a_half_precision_model_that_names_its_dtype_is_refused_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="mixes the two at") as caught:
        source(tmp_path, "Fixes", PLAIN)
    assert str(caught.value) == (
        f"a half-precision model is carried in float32, and mine.py:Fixes mixes the two at "
        f"{at(tmp_path, 'return self.lin(x.half())')}\n"
        "  fix: take the dtype from a weight or an input there, as in x.to(self.weight.dtype)"
    )


def test_a_batched_product_that_mixes_the_two_is_told_the_same() -> None:
    with pytest.raises(BadRequest, match="mixes the two at"), in_float32("net.py:Net", {"w": torch.float16}):
        torch.bmm(torch.ones(1, 2, 2), torch.ones(1, 2, 2, dtype=torch.float16))


def test_a_trace_is_asked_with_a_single_number_too() -> None:
    """What numpy makes of such an array by arithmetic is no array."""

    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return x * scale if scale > 0 else x

    x = parse_input("x=float32[batch,4]")
    signature = Signature((x, parse_input("scale=float32[]")), (x,))
    assert list(tracing.data_questions(Scaled(), signature).values()) == [True]
