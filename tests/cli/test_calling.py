"""Models whose forward is called in ways of its own, converted as a stranger types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from .command_line import run

NET = '''
import dataclasses
import torch


@dataclasses.dataclass
class Out:
    logits: torch.Tensor
    states: tuple
    loss: torch.Tensor = None


class Tracker(torch.nn.Module):
    """A dict and a pair in, a keyword more, a dataclass out; in half precision; it counts its calls."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.lin = torch.nn.Linear(6, 5)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.half()

    def forward(self, batch, state, *, scale, mask=None):
        self.calls += 1
        x = torch.cat([batch["x"], batch["y"]], 1).to(self.lin.weight.dtype)
        h = self.lin(x) * scale + state[0]
        return Out(h, (h - state[1], None, state[0]))


def example_inputs():
    rows = torch.zeros(2, 5)
    return {"batch": {"x": torch.zeros(2, 4), "y": torch.zeros(2, 2)}, "state": (rows, rows), "scale": rows}


class Sleeper(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x)
'''
pytestmark = pytest.mark.usefixtures("loaded_once")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    return tmp_path


@pytest.mark.slow
def test_a_model_that_takes_and_returns_nests_is_converted_without_a_word_about_its_inputs(here: Path) -> None:
    done = run(here, "convert", "net.py:Tracker", "--to", "pt2,torchscript,onnx", "--out", "made", "--jobs", "2")
    assert "its float16 weights are carried in float32; its own float16 arithmetic lies" in done.stderr
    rows = json.loads((here / "made" / "convert.json").read_text())["artifacts"]
    assert [row["status"] for row in rows] == ["verified"] * 3
    signature = rows[-1]["signature"]
    assert [spec["name"] for spec in signature["inputs"]] == ["batch_x", "batch_y", "state_0", "state_1", "scale"]
    assert {spec["dtype"] for spec in signature["inputs"]} == {"float32"}
    assert [spec["name"] for spec in signature["outputs"]] == ["logits", "states_0", "states_2"]
    run(here, "convert", "made/pt2/model.pt2", "--to", "onnx", "--out", "again", "--quiet")
    record = json.loads((here / "again" / "onnx" / "artifact.json").read_text())
    assert [spec["name"] for spec in record["signature"]["inputs"]] == [spec["name"] for spec in signature["inputs"]]


def test_a_model_that_is_random_is_refused_with_its_line(here: Path) -> None:
    done = run(
        here, "convert", "net.py:Sleeper", "--input", "x=float32[batch,4]", "--to", "onnx", "--out", "made", "-q",
        status=2,
    )  # fmt: skip
    line = NET.splitlines().index("        return torch.nn.functional.dropout(x)") + 1
    assert done.stderr == (
        "error: the model is random: its output differs between two calls on one input, in eval mode too: bernoulli_ "
        f"at {here}/net.py:{line} (`return torch.nn.functional.dropout(x)`)\n"
        "  fix: give functional dropout training=self.training, and draw no random numbers in forward\n"
    )


TWO = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(9, 4)
    def forward(self, ids, x):
        assert int(ids.min()) >= 5, "ids are 5 to 8"
        return self.table(ids).mean(1) + x
"""


def test_inputs_are_taken_from_data_that_are_named_as_forwards_parameters(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(TWO)
    ids = np.random.default_rng(0).integers(5, 9, (40, 3))
    np.savez(tmp_path / "d.npz", ids=ids, x=np.random.default_rng(1).random((40, 4), np.float32))
    done = run(tmp_path, "convert", "net.py:Net", "--data", "d.npz", "--to", "torchscript", "--out", "made")
    inputs = "ids=int64[batch,3], x=float32[batch,4]"
    assert f"Net: {inputs}; inputs taken from d.npz: {inputs}" in done.stderr
    record = json.loads((tmp_path / "made" / "torchscript" / "artifact.json").read_text())
    assert [row["shape"] for row in record["signature"]["inputs"]] == [["batch", 3], ["batch", 4]]
