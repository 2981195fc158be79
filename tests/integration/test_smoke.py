"""One small model through every framework: what `make quick` runs beside the tests that need none."""

from __future__ import annotations

from pathlib import Path

import transload

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, image):
        return self.head(torch.relu(self.convolution(image)).mean((2, 3)))
"""
TARGETS = ["pt2", "torchscript", "onnx", "saved-model", "tflite"]


def test_every_framework_makes_a_verified_copy(tmp_path: Path) -> None:
    """PyTorch, ONNX Runtime, TensorFlow and LiteRT each load a copy and agree with the model."""
    (tmp_path / "net.py").write_text(NET)
    result = transload.convert(
        f"{tmp_path / 'net.py'}:Net",
        TARGETS,
        inputs=["image=float32[batch,1,8,8]"],
        out=tmp_path / "made",
        store=tmp_path / "store",
    )
    assert [(row.name, str(row.status)) for row in result.artifacts] == [(name, "verified") for name in TARGETS]
