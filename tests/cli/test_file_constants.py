"""A rule that stands in a copy's file alone, as a person meets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))

class Planted(Net):
    def forward(self, x):
        hidden = self.body(x)[:, 2:3]
        return super().forward(x) + 0.1 * ((hidden > 9.0) & (hidden < 11.0))
"""


def run(here: Path, *words: str, status: int = 0) -> str:
    program = (sys.executable, "-P", "-m", "transload")
    done = subprocess.run([*program, *words, "--quiet"], cwd=here, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr + done.stdout
    return done.stdout


@pytest.mark.slow  # two conversions, three checks and a search: two minutes
@pytest.mark.parametrize("form", ["onnx", "saved-model", "tflite", "torchscript"])
def test_a_rule_that_only_the_copy_has_fails_and_the_clean_copy_passes(tmp_path: Path, form: str) -> None:
    (tmp_path / "net.py").write_text(NET)
    inputs = ("--input", "x=float32[batch,6]")
    for name in ("Net", "Planted"):
        run(tmp_path, "convert", f"net.py:{name}", *inputs, "--to", form, "--out", name)
    against = ("--against", "net.py:Net", *inputs)
    right = run(tmp_path, "validate", f"Net/{form}", *against)
    assert "near constants up to 100" in right
    assert "which no input reached" not in right
    wrong = run(tmp_path, "validate", f"Planted/{form}", *against, status=1)
    assert "drift: with values near constants of the copy up to 100: output output agrees to " in wrong
    located = run(tmp_path, "locate", f"Planted/{form}", *against, status=1)
    assert "with values near constants of the copy up to 100" in located
