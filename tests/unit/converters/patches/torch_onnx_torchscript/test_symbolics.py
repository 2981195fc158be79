"""Recurrent nets, attention and places through torch's older exporter, traced and compiled: what is packed comes back
as PyTorch gives it, places count from the end, and projections are carried."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transload.converters.patches.torch_onnx_torchscript.symbolics import mend_older_exporter
from transload.models.errors import Refused


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's exporter announces its own end, and that sizes differ
        yield


class Packed(nn.Module):
    """Rows up to the longest, or up to `total`, and the last state of every layer."""

    def __init__(self, kind: str, total: int | None, value: float, **more: Any) -> None:
        super().__init__()
        self.total, self.value = total, value
        self.rnn = getattr(nn, kind)(3, 6, batch_first=True, **more)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        rows, last = self.rnn(packed)
        rows, ends = pad_packed_sequence(rows, batch_first=True, padding_value=self.value, total_length=self.total)
        return rows, ends, last


class LastOfPacked(nn.Module):
    """The last state of every layer alone, of rows that are longest first or in any order."""

    def __init__(self, kind: str, in_order: bool, **more: Any) -> None:
        super().__init__()
        self.in_order = in_order
        self.rnn = getattr(nn, kind)(3, 6, batch_first=True, **more)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=self.in_order)
        last = self.rnn(packed)[1]
        return last if isinstance(self.rnn, nn.LSTM) else (last,)


class Twice(nn.Module):
    """Two layers that read one packed sequence, of which one gives its rows and the other its state."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.last = nn.GRU(3, 4), nn.LSTM(3, 5, 2, bidirectional=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        rows, _ = pad_packed_sequence(self.rows(packed)[0])
        return rows, self.last(packed)[1][1]


class Projected(nn.Module):
    def __init__(self, begins: bool = False, **more: Any) -> None:
        super().__init__()
        self.begins = begins
        self.rnn = nn.LSTM(3, 6, proj_size=2, **more)
        states = self.rnn.num_layers * (2 if self.rnn.bidirectional else 1)
        self.first = nn.Parameter(torch.linspace(-1, 1, 2 * states).reshape(states, 1, 2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        batch = x.shape[0] if self.rnn.batch_first else x.shape[1]
        first = self.first.expand(-1, batch, -1).contiguous()
        cell = torch.ones(first.shape[0], batch, 6) / 3
        rows, (last, cells) = self.rnn(x, (first, cell)) if self.begins else self.rnn(x)
        return rows, last, cells


class Placed(nn.Module):
    """The last row of each length: of 0 the very last, as indices below 0 count from the end; others, all between."""

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        rows = torch.arange(x.shape[0])
        between = x[rows[:, None], :, torch.stack([lengths, -lengths], 1).clamp(-3, 2)]
        return x[rows, lengths - 1], x[-1 - rows, (lengths - 1).int(), 1], between


def check(
    model: nn.Module, example: Sequence[torch.Tensor], others: Sequence[Sequence[torch.Tensor]], folder: Path, how: str
) -> None:
    """Exported with one set of inputs, and asked with others of other sizes."""
    mend_older_exporter()
    model = model.eval().requires_grad_(False)
    given = {
        "traced": lambda: model,
        "compiled": lambda: torch.jit.script(model),
        "frozen": lambda: torch.jit.freeze(torch.jit.trace(model, tuple(example))),
    }[how]()
    names = ["x", "lengths"][: len(example)]
    axes = {"x": {0: "a", 1: "b"}, "lengths": {0: "c"}}
    path = str(folder / "model.onnx")
    torch.onnx.export(given, tuple(example), path, dynamo=False, opset_version=17, input_names=names, dynamic_axes=axes)
    session = onnxruntime.InferenceSession(path)
    for inputs in others:
        got = session.run(None, {name: each.numpy() for name, each in zip(names, inputs, strict=True)})
        for one, want in zip(got, model(*inputs), strict=True):
            assert one.dtype == want.numpy().dtype
            np.testing.assert_allclose(one, want.numpy(), atol=1e-6)


ROWS = [
    (torch.randn(4, 6, 3), torch.tensor([1, 3, 2, 3])),
    (torch.randn(1, 2, 3), torch.tensor([2])),
]


@pytest.mark.parametrize("how", ["traced", "compiled"])
@pytest.mark.parametrize(
    ("kind", "total", "value", "more"),
    [
        ("GRU", None, 0.0, {}),
        ("GRU", None, -7.5, {"num_layers": 2, "bidirectional": True}),
        ("RNN", 9, 2.0, {"num_layers": 2}),
    ],
)
def test_what_was_packed_comes_back(  # noqa: PLR0917  (the cases' own)
    kind: str, total: int | None, value: float, more: dict[str, Any], how: str, tmp_path: Path
) -> None:
    model = Packed(kind, total, value, **more)
    check(model, (torch.randn(3, 5, 3), torch.tensor([2, 5, 3])), ROWS, tmp_path, how)


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("LSTM", {}),
        ("LSTM", {"bidirectional": True}),
        ("LSTM", {"num_layers": 2, "bidirectional": True, "proj_size": 2}),
        ("GRU", {"bidirectional": True}),
        ("GRU", {"num_layers": 2}),
        ("RNN", {}),
        ("RNN", {"nonlinearity": "relu"}),
    ],
)
def test_so_does_the_last_state_alone(kind: str, more: dict[str, Any], in_order: bool, tmp_path: Path) -> None:
    lengths = [torch.tensor([4, 2, 2, 1]) if in_order else torch.tensor([1, 4, 2, 2]), torch.tensor([2])]
    others = [(rows, each) for (rows, _), each in zip(ROWS, lengths, strict=True)]
    check(
        LastOfPacked(kind, in_order, **more),
        (torch.randn(3, 5, 3), torch.tensor([5, 3, 2])),
        others,
        tmp_path,
        "traced",
    )


def test_a_packed_sequence_is_read_twice(tmp_path: Path) -> None:
    check(Twice(), (torch.randn(3, 5, 3), torch.tensor([2, 5, 3])), ROWS, tmp_path, "traced")


def test_a_transformer_layer_that_pytorch_fuses_is_written_out(tmp_path: Path) -> None:
    class Encoded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(6, 2, 10, batch_first=True)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
            return (self.layer(x),)

    check(Encoded(), (torch.randn(3, 5, 6),), [(torch.randn(2, 7, 6),)], tmp_path, "traced")


class Turned(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.permute(0, -1, -2).exp(), (x + 1).permute(0, 1, -1)


@pytest.mark.parametrize("how", ["traced", "compiled"])
def test_axes_that_change_places_count_from_the_end(how: str, tmp_path: Path) -> None:
    check(Turned(), (torch.rand(2, 3, 4),), [(torch.rand(1, 5, 4),)], tmp_path, how)


@pytest.mark.parametrize("how", ["traced", "compiled"])
def test_several_places_at_once_count_from_the_end(how: str, tmp_path: Path) -> None:
    others = [(torch.randn(4, 6, 3), torch.tensor([0, 6, -2, 3])), (torch.randn(1, 1, 3), torch.tensor([0]))]
    check(Placed(), (torch.randn(3, 5, 3), torch.tensor([2, 5, 0])), others, tmp_path, how)


@pytest.mark.parametrize(
    "more", [{"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False, "num_layers": 2}]
)
def test_projections_are_carried_at_any_length(more: dict[str, Any], tmp_path: Path) -> None:
    others = [(torch.randn(2, 7, 3),), (torch.randn(1, 1, 3),)]
    check(Projected(**more), (torch.randn(3, 5, 3),), others, tmp_path, "traced")


def test_so_is_a_state_that_they_begin_with_where_weights_are_constants(tmp_path: Path) -> None:
    model = Projected(begins=True, num_layers=2, bidirectional=True)
    check(model, (torch.randn(5, 3, 3),), [(torch.randn(7, 2, 3),)], tmp_path, "frozen")
    with pytest.raises(Refused, match="that begins with a state of the model's with proj_size"):
        check(model, (torch.randn(5, 3, 3),), [], tmp_path, "traced")


class Blocks(nn.Module):
    """As many steps as blocks, and the rounded numbers themselves, which stay floats where they are a tensor's."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        total = torch.zeros_like(x[:, 0])
        for at in range(math.ceil(x.shape[1] / 4)):
            total = total + x[:, at * 4 : at * 4 + 4].amax(1)
        for at in range(math.floor(x.shape[1] / 3)):
            total = total - x[:, at * 3]
        return total, x.ceil(), torch.floor(x)


def test_rounded_sizes_count_the_steps_of_a_loop(tmp_path: Path) -> None:
    others = [(torch.randn(2, length, 3),) for length in (8, 9, 1)]
    check(Blocks(), (torch.randn(3, 7, 3),), others, tmp_path, "compiled")


class LogOfSigmoid(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (nn.functional.logsigmoid(x),)


def test_the_log_of_a_sigmoid_is_finite_far_below_zero(tmp_path: Path) -> None:
    check(LogOfSigmoid(), (torch.randn(3, 4),), [(torch.linspace(-300, 300, 12).reshape(3, 4),)], tmp_path, "traced")
