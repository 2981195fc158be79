"""Integers that random samples do not hold, as a person meets them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import helper

NET = """
import torch

class Floor(torch.nn.Module):
    def forward(self, x):
        return x // 3

class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.table = torch.nn.Embedding(10, 4)

    def forward(self, ids):
        return self.table(ids).mean(1)
"""


def run(here: Path, *words: str, status: int = 0) -> str:
    program = (sys.executable, "-P", "-m", "transload")
    done = subprocess.run([*program, *words, "--quiet"], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr + done.stdout
    return done.stdout


def round_to_zero(path: Path, to: Path) -> None:
    """x // 3 as a file has it that keeps Div's own rounding."""
    model = onnx.load(path)
    (divided,) = (node for node in model.graph.node if node.op_type == "Div")
    (last,) = (node for node in model.graph.node if "output" in node.output)
    model.graph.node.remove(last)
    model.graph.node.append(helper.make_node("Identity", divided.output, ["output"]))
    onnx.save(model, to)


@pytest.mark.slow  # three conversions and checks: half a minute
def test_what_only_negative_integers_show_is_caught_and_a_small_table_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    made = run(tmp_path, "convert", "net.py:Named", "--input", "ids=int64[batch,5]", "--to", "onnx", "--out", "named")
    assert "at batches 1, 2, 5, 65, with ids up to 9\n" in made
    floor = ("net.py:Floor", "--input", "x=int64[batch,4]")
    assert ", with x within ±2^62\n" in run(tmp_path, "convert", *floor, "--to", "onnx", "--out", "floor")
    round_to_zero(tmp_path / "floor" / "onnx" / "model.onnx", tmp_path / "edited.onnx")
    told = run(tmp_path, "validate", "edited.onnx", "--against", *floor, status=1)
    assert "integers differ; wrong where x is -1, -2, -4, -5 and others; " in told
    assert "with x within ±7: " in told
    assert "where such integers never come, give samples of yours: --data FILE.npz" in told
