"""Compiled models through torch's older exporter: cells of recurrent nets in a loop, whatever they are given, and a
list of what a loop made."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn

from transload.converters.onnx_export import onnx_from_source
from transload.converters.torch_operators.older_exporter.symbolics import mend_older_exporter
from transload.converters.tracing import scripted
from transload.models.job import Job
from transload.models.signature import parse_input
from transload.models.zoo.given import take_weights


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


def test_a_list_of_tensors_is_taken_apart(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LOOP)
    start, out = tmp_path / "source", tmp_path / "onnx"
    start.mkdir()
    out.mkdir()
    inputs = [parse_input("x=float32[batch,steps]").to_json()]
    take_weights(Job({}, start, {"ref": "mine.py:Loop", "root": str(tmp_path), "inputs": inputs}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx_from_source(Job({"source": start}, out, {}))
    session = onnxruntime.InferenceSession(out / "model.onnx")
    for shape in ((3, 5), (1, 1), (2, 9)):
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        want = x[:, 0]
        for step in x.T[1:]:
            want = np.tanh(want + step)
        got = session.run(None, {"x": x})
        np.testing.assert_allclose(got[0], want, atol=1e-6)
        np.testing.assert_array_equal(got[1], x * 2)
