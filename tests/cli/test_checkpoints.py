"""A checkpoint with a configuration of its own classes, and files that are no weights, through the command."""

from __future__ import annotations

import pickle
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from .command_line import run

pytestmark = pytest.mark.usefixtures("loaded_once")

WORDS = ("convert", "net.py:Net", "--input", "x=float32[batch,5]", "--to", "torchscript", "--out", "made", "--weights")

NET = """
from dataclasses import dataclass, field
from enum import Enum
import torch

class Kind(Enum):
    ONE = 1
    TWO = 2

@dataclass
class Head:
    classes: int = 3
    kind: Kind = Kind.ONE

@dataclass
class Config:
    width: int = 4
    heads: dict[str, Head] = field(default_factory=dict)

class Net(torch.nn.Module):
    def __init__(self, config: Config, loss=None):
        super().__init__()
        self.heads = torch.nn.ModuleDict()
        for name, head in config.heads.items():
            self.heads[name] = torch.nn.Linear(config.width, head.classes * head.kind.value)

    def forward(self, x):
        return {name: head(x) for name, head in self.heads.items()}
"""


def write_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write what Lightning writes, with arrays for tensors, so that no framework is loaded here."""
    (folder / "net.py").write_text(NET)
    module = types.ModuleType("net")
    monkeypatch.setitem(sys.modules, "net", module)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(nn=types.SimpleNamespace(Module=object)))
    exec(compile(NET, "net.py", "exec"), module.__dict__)  # noqa: S102  (pickle asks for the classes of a module)
    config = module.Config(5, {"kind": module.Head(4), "other": module.Head(2, module.Kind.TWO)})
    weight, bias = np.arange(20, dtype=np.float32).reshape(4, 5), np.ones(4, np.float32)
    parts = {"weight": weight, "bias": bias}
    state = {f"heads.{name}.{part}": value for name in config.heads for part, value in parts.items()}
    settings = {"config": config, "loss": print}
    (folder / "last.ckpt").write_bytes(pickle.dumps({"state_dict": state, "hyper_parameters": settings, "epoch": 3}))


def test_a_checkpoint_makes_the_model_and_a_setting_changes_a_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        write_checkpoint(tmp_path, patch)
    said = " ".join(run(tmp_path, *WORDS, "last.ckpt").stderr.split())
    assert "config: from the settings in last.ckpt; --set has precedence" in said
    assert "loss is left at its default: loss of net.py:Net is builtins.print in the checkpoint, which is not" in said
    other = run(tmp_path, *WORDS, "last.ckpt", "--set", "config.heads.kind.classes=7", status=2)
    assert "heads.kind.weight is [4, 5] where the model has [7, 5]" in " ".join(other.stderr.split())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file: {here}/w.pt\n  fix: check model.weights in the pipeline file, or --weights\n"),
        (b"", "{here}/w.pt is empty\n  fix: copy it again, or save it again\n"),
        (b"<html>", "{here}/w.pt is a web page\n  fix: download the file itself; the page may ask for a login\n"),
        (b"PK", "{here}/w.pt is not a whole checkpoint: its end is missing\n  fix: copy it again, or save it again\n"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_weights_is_told_before_the_code_is_imported(
    content: bytes | None, words: str, tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text("raise RuntimeError('imported')\n")
    if content is not None:
        (tmp_path / "w.pt").write_bytes(content)
    assert run(tmp_path, *WORDS, "w.pt", status=2).stderr.endswith(f"error: {words.format(here=tmp_path)}")
