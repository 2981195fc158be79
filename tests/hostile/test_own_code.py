"""A user's own code that takes the machine's memory as it is imported."""

from __future__ import annotations

from pathlib import Path

from ..cli.command_line import run

HOG = """import torch
KEPT = [b"x" * (1 << 20) for _ in range(3000)]
class Net(torch.nn.Module):
    def forward(self, x):
        return x
"""


def test_importing_code_may_take_what_a_file_may(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(HOG)
    words = "convert", "net.py:Net", "--to", "onnx", "--input", "x=float32[batch,4]", "--out", "made"
    assert (
        "error: importing net.py:Net took more memory than 2.15 GB\n"
        "  fix: make what is large in a function or a class, which is called where more may be used; or give --trust\n"
    ) in run(tmp_path, *words, status=2).stderr
