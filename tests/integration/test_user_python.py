"""A project with an environment of its own: its model is made and answered there, and nothing is written there."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import transload
from transload.models.formats import Format
from transload.pipeline.result.schema import RouteStatus, Verdict

# It can be imported in the project's environment alone, as if it needed an older torch.
NET = """
import os
import sys
from torch import nn
from parts.blocks import Block

if not __file__.startswith(os.path.dirname(sys.prefix)):
    raise ImportError("this package is of another time")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = Block(6, 8), nn.Linear(8, 3)
    def forward(self, features):
        return self.last(self.first(features))
"""
BLOCK = """
from torch import nn

class Block(nn.Sequential):
    def __init__(self, width, out):
        super().__init__(nn.Linear(width, out), nn.Tanh())
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with an environment that has our torch, by a link to where it lies: nothing is installed."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "parts").mkdir()
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "blocks.py").write_text(BLOCK)
    (folder / "net.py").write_text(NET)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True)
    (packages,) = folder.glob(".venv/lib/python*/site-packages")
    (packages / "torch.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_model_of_another_environment_is_captured_there_and_verified(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    before = digests(project)
    result = transload.convert(
        "net.py:Net", ["torchscript"], inputs=["features=float32[batch,6]"], out=tmp_path / "out",
        store=tmp_path / "store", quiet=False,
    )  # fmt: skip
    (row,) = result.artifacts
    assert (result.decided[0], row.route) == (Verdict.PASS, ("foreign.jit",))
    assert (tmp_path / "out" / "torchscript" / Format.TORCHSCRIPT.spec.payload).is_file()
    by_us = next(tried for tried in row.tried if tried.route == ("torch.jit",))
    assert by_us.status is RouteStatus.FAILED
    assert "this package is of another time" in by_us.reason
    assert "note: model of ./.venv: torch" in capsys.readouterr().err
    assert digests(project) == before
