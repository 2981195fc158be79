"""Routes as a stranger meets them: what nothing here can run may be built on, and every wrong answer is told."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import transload

pytestmark = pytest.mark.usefixtures("loaded_once")

NETS = """
import torch

class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.window = torch.nn.Conv1d(1, 4, 3).double()

    def forward(self, x):  # ONNX Runtime convolves no float64
        return self.window(x.double()[:, None]).float()

class Small(torch.nn.Module):
    def forward(self, x):  # torch's exporters add 1, in which so small a number is lost
        return torch.log1p(1e-9 * x.abs())


class Peaks(torch.nn.Module):
    def forward(self, x):  # TensorFlow's kernel leaves NaN out of the maximum
        return torch.nn.functional.max_pool2d(x, 2)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_copy_is_made_of_an_onnx_file_that_onnx_runtime_cannot_open(here: Path) -> None:
    (row,) = transload.convert("nets.py:Wide", ["saved-model"], out="made", inputs=["x=float32[batch,7]"]).artifacts
    assert (row.status, row.route) == ("verified", ("torch.export", "torch.onnx-dynamo", "lowering"))
    reason = row.tried[0].reason
    assert reason.startswith("agrees to ")
    unopened = (
        "; what it is made from was not run (torch.onnx-dynamo: onnxruntime cannot open model.onnx: Could not find"
    )
    assert unopened in reason


@pytest.mark.slow
def test_a_copy_whose_runtime_loses_nan_is_noted_and_the_exit_status_is_0(here: Path) -> None:
    made = transload.convert("nets.py:Peaks", ["saved-model"], out="made", inputs=["x=float32[batch,2,4,4]"])
    (row,) = made.artifacts
    assert (row.status, row.tried[0].status, made.decided[1]) == ("verified", "verified", 0)
    note = "with x NaN in one place: answers numbers where the model answers NaN (1 element)"
    assert f"; {note}" in row.tried[0].reason
    command = [sys.executable, "-P", "-m", "transload", "validate", "made/saved-model", "--against", "nets.py:Peaks"]
    words = ["--input", "x=float32[batch,2,4,4]", "--runtime", "tensorflow"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert f"saved-model in tensorflow: {note}" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_wrong_answers_of_every_exporter_are_each_told(here: Path) -> None:
    done = transload.convert("nets.py:Small", ["onnx"], out="made", inputs=["x=float32[batch,7]"], search_seconds=1)
    assert done.decided[1] == 1
    tried = {row.route[-1]: row for row in done.artifacts[0].tried}
    assert tried["torch.onnx-dynamo"].status == "wrong"
    assert tried["torch.onnx-dynamo@18"].status == "wrong", "the same exporter at another opset was asked"
    assert re.search(r"dB, below \d+ dB; the model itself agrees to \d+ dB", tried["torch.onnx-dynamo"].reason)
    assert tried["torch.onnx-torchscript"].status in {"wrong", "failed"}
