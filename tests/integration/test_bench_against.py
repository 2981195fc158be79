"""`bench --against MODEL`: one model is the reference of what runs in process and of what is served."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import transload
from transload.models.signature import parse_input

pytestmark = pytest.mark.usefixtures("loaded_once")

CODE = """
import torch

class Product(torch.nn.Module):
    def forward(self, x):
        return x @ torch.arange(6.0).reshape(3, 2)

product = Product()
"""


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A product of x (batch, 3) and a matrix, as code and as a file."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    y = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 2])
    weight = helper.make_tensor("w", TensorProto.FLOAT, (3, 2), np.arange(6, dtype=np.float32))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["output"])], "product", [x], [y], [weight])
    path = tmp_path / "product.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    (tmp_path / "net.py").write_text(CODE)
    return path


@pytest.mark.parametrize(
    ("against", "runtime", "options"),
    [
        ("net.py:product", "torch", {}),
        ("net.py:product", "torch", {"python": sys.executable}),
        ("product.onnx", "onnxruntime", {}),
    ],
    ids=["code", "code of another environment", "file"],
)
def test_every_row_is_held_against_the_named_model_asked_in_the_same_way(
    product: Path, monkeypatch: pytest.MonkeyPatch, against: str, runtime: str, options: dict[str, Any]
) -> None:
    monkeypatch.chdir(product.parent)
    inputs = [parse_input("x=float32[batch,3]")] if runtime == "torch" else []
    done = transload.bench(
        product, against=against, inputs=inputs, runtimes=["onnxruntime", "oip-http", "oip-grpc"], batches=[1],
        rounds=3, processes=1, budget_s=0, quiet=True, **options,
    )  # fmt: skip
    served = ("oip-http", "oip-grpc")
    asked = {(row.artifact, row.runtime): row.reference for row in done.latency if row.p50_s is not None}
    assert asked == {
        ("source", runtime): f"source in {runtime}",
        ("onnx", "onnxruntime"): f"source in {runtime}",
        **{("source", name): f"source in {name}" for name in served},
        **{("onnx", name): f"source in {name}" for name in served},
    }
    kinds = {row.runtime: row.server for row in done.latency}
    assert kinds == {runtime: None, "onnxruntime": None, **dict.fromkeys(served, "embedded")}
