"""Compiled models through torch's older exporter: cells of recurrent nets in a loop, whatever they are given, and a
list of what a loop made."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

from transload.converters.patches.torch_onnx_torchscript.symbolics import mend_older_exporter
from transload.converters.to_onnx.onnx_from_source import onnx_from_source
from transload.converters.to_pytorch.model_calls import tree_leaves
from transload.converters.to_pytorch.tracing import scripted
from transload.models.job import Job
from transload.models.loading.build import build_model
from transload.models.loading.source_from_code import take_weights
from transload.models.signature import parse_input


class Cells(nn.Module):
    """Each takes what another gave in the step before, and so of no value in the loop it is known how many axes it
    has. One takes a row, and not a batch of them; some begin with nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.lstm = nn.GRUCell(3, 5), nn.LSTMCell(5, 4)
        self.tanh, self.relu = nn.RNNCell(4, 3), nn.RNNCell(3, 3, bias=False, nonlinearity="relu")

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden, cell = self.lstm(self.gru(x[:, 0]))
        back, row = self.tanh(hidden), self.gru(x[0, 0])
        for at in range(x.shape[1]):
            state = self.gru(back + x[:, at], torch.cat([cell, hidden[:, :1]], 1))
            hidden, cell = self.lstm(state, (hidden, cell))
            back = self.relu(self.tanh(hidden, back)) - lengths[:, None]
            row = self.gru(x[0, at], row)
        return cell, back, row


def test_cells_in_a_loop_are_what_pytorch_makes_of_them(tmp_path: Path) -> None:
    model, path = Cells().eval().requires_grad_(False), tmp_path / "model.onnx"
    own = nn.GRUCell.forward
    mend_older_exporter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter announces its own end
        given = (torch.randn(3, 6, 3), torch.tensor([1.0, 0.0, 2.0]))
        made = scripted(model, None, given)
        names, axes = ["x", "lengths"], {"x": {0: "batch", 1: "steps"}, "lengths": {0: "batch"}}
        torch.onnx.export(made, given, str(path), dynamo=False, opset_version=17, input_names=names, dynamic_axes=axes)
    assert nn.GRUCell.forward is own
    session = onnxruntime.InferenceSession(path)
    for batch, steps in ((3, 6), (1, 1), (5, 3), (3, 9)):
        inputs = torch.randn(batch, steps, 3), torch.randn(batch)
        got = session.run(None, {name: each.numpy() for name, each in zip(names, inputs, strict=True)})
        for one, want in zip(got, model(*inputs), strict=True):
            np.testing.assert_allclose(one, want.numpy(), atol=1e-6)


LOOP = """
import torch


class Loop(torch.nn.Module):
    def forward(self, x):
        h = x[:, 0]
        for at in range(1, x.shape[1]):
            h = torch.tanh(h + x[:, at])
        return [h, x * 2]
"""


def carried(code: str, inputs: str, folder: Path) -> tuple[nn.Module, onnxruntime.InferenceSession]:
    """The model of a source's last class, and its copy by the older exporter."""
    (folder / "mine.py").write_text(code)
    start, out = folder / "source", folder / "onnx"
    start.mkdir()
    out.mkdir()
    name = re.findall(r"^class (\w+)", code, re.M)[-1]
    given = [parse_input(each).to_json() for each in inputs.split()]
    take_weights(Job({}, start, {"ref": f"mine.py:{name}", "root": str(folder), "inputs": given}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx_from_source(Job({"source": start}, out, {}))
    return build_model(start), onnxruntime.InferenceSession(out / "model.onnx")


def test_a_list_of_tensors_is_taken_apart(tmp_path: Path) -> None:
    _, session = carried(LOOP, "x=float32[batch,steps]", tmp_path)
    for shape in ((3, 5), (1, 1), (2, 9)):
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        want = x[:, 0]
        for step in x.T[1:]:
            want = np.tanh(want + step)
        got = session.run(None, {"x": x})
        np.testing.assert_allclose(got[0], want, atol=1e-6)
        np.testing.assert_array_equal(got[1], x * 2)


WIDTHS = """
import torch


class Widths(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(3, 24), torch.nn.Linear(24, 4)

    def forward(self, x):
        wide, narrow = torch.zeros(x.size(0), 24), torch.zeros(x.size(0), 4)
        for at in range(x.shape[1]):
            wide = 0.9 * wide + self.one(x[:, at]) - (wide > 0.5).float()
            narrow = 0.9 * narrow + self.two(wide) - (narrow > 0.5).float()
        return wide, narrow
"""


def test_states_of_a_loop_have_widths_of_their_own(tmp_path: Path) -> None:
    model, session = carried(WIDTHS, "x=float32[batch,steps,3]", tmp_path)
    for shape in ((1, 5, 3), (4, 1, 3), (2, 9, 3)):
        x = torch.randn(shape)
        for got, want in zip(session.run(None, {"x": x.numpy()}), model(x), strict=True):
            np.testing.assert_allclose(got, want.numpy(), atol=1e-5)


PLACES = """
import torch


class Places(torch.nn.Module):
    def forward(self, x):
        h = x.clone()
        rows, steps = torch.arange(x.shape[0])[:, None], torch.stack([x[:, :, 0].argmax(1), x[:, :, 1].argmin(1)], 1)
        for at in range(x.shape[1]):
            h = h + x[:, at, None]
        kept = h.clone()
        kept[rows, steps, :] = x[rows, steps, :] * 100
        return kept
"""
TURNED = """
import torch


class Turned(torch.nn.Module):
    def forward(self, x):
        h, row = x, x[0]
        every, rows = [x], [row]
        for at in range(x.shape[1]):
            h = torch.tanh(every[at] + x[:, at, None])  # of a list nobody knows the axes
            h = h @ h.mT @ h + h @ h.mH @ h + h @ h.adjoint() @ h + h @ h.transpose(-1, -2) @ h
            row = torch.tanh(rows[at])
            row = row @ row.T @ row + row @ row.H @ row + row @ row.t() @ row
            every.append(torch.tanh(h))
            rows.append(row)
        return h.mT, row, x[0].T, x[0].H, x.mT
"""


@pytest.mark.parametrize("code", [PLACES, TURNED])
def test_places_and_turned_axes_are_those_of_pytorch(code: str, tmp_path: Path) -> None:
    model, session = carried(code, "x=float32[batch,steps,3]", tmp_path)
    for shape in ((3, 6, 3), (1, 2, 3), (4, 9, 3)):
        x = torch.randn(shape)
        given = model(x)
        for got, want in zip(session.run(None, {"x": x.numpy()}), tree_leaves(given), strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-3, atol=1e-4)
