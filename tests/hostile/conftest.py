"""Model files to break, and the command line to give them to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.pipeline.cli import main

from .corpus.case import NET

EXPORT = """
import torch
from net import Net
batch = {0: torch.export.Dim.DYNAMIC}
torch.export.save(torch.export.export(Net(), (torch.randn(3, 4),), dynamic_shapes=(batch,)), "good.pt2")
torch.export.save(torch.export.export(Net(), (torch.randn(3, 4),)), "fixed.pt2")
"""
Ran = tuple[int, str, str]  # exit status, stdout, stderr


def onnx_model(first: str | int | None = "batch", *, external: str | None = None) -> onnx.ModelProto:
    """y = x @ w; `external`: where the weights are said to lie."""
    weights = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3), "w")
    if external is not None:
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        weights.external_data.add(key="location", value=external)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [first, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [first, 3])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def put(path: Path, model: onnx.ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="module", autouse=True)
def every_command_is_forked(loaded_once: None) -> None:
    """Each of these tests is a command, and most of what it took was loading a framework."""


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good.pt2 and fixed.pt2; made by PyTorch in a process of its own."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "net.py").write_text(NET)
    (folder / "make.py").write_text(EXPORT)
    subprocess.run([sys.executable, "make.py"], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("TRANSLOAD_STORE", raising=False)
    return folder


@pytest.fixture
def transload(here: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """`transload(*words)`: the command as a person types it."""

    def call(*words: str) -> Ran:
        status = main(words)
        told = capfd.readouterr()
        return status, told.out, told.err

    return call
