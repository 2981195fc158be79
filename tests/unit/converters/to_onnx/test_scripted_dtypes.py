"""What compiled source computes of unlike types: torch's older exporter has lost them, and its ONNX is opened by ONNX
Runtime and answers as PyTorch does all the same."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from transload.converters.to_onnx.onnx_from_source import onnx_from_source
from transload.converters.to_onnx.scripted_dtypes import insert_casts
from transload.models.job import Job
from transload.models.loading.build import build_model
from transload.models.loading.source_from_code import take_weights
from transload.models.signature import parse_input

CODE = """
import math

import torch


class Mixed(torch.nn.Module):
    def forward(self, x):
        h = x[:, 0]
        signs, steps = [h > 0], [h.long()]
        for at in range(x.shape[1]):
            h = torch.tanh(h + x[:, at])
            signs.append(h > 0)
            steps.append((10 * h).long())
        b, i = torch.stack(signs, 1), torch.stack(steps, 1)
        return %s
"""
UNLIKE = [
    "i * b", "b * b", "b + b", "i + 0.5", "b.cumsum(1)", "b.sum(1)", "torch.exp(i)", "torch.where(b, i, 0.5)",
    "torch.where(b, h[:, None], i)", "x * math.log(x.shape[1])", "x * math.log(float(x.shape[1] + 1))",
    "x[:, : math.ceil(math.log(x.shape[1] + 1))]", "x[:, : int(x.shape[1] * 0.7)]",
]  # fmt: skip


def carried(code: str, folder: Path) -> tuple[nn.Module, onnxruntime.InferenceSession]:
    (folder / "mine.py").write_text(code)
    start, out = folder / "source", folder / "onnx"
    start.mkdir()
    out.mkdir()
    given = [parse_input("x=float32[batch,steps]").to_json()]
    take_weights(Job({}, start, {"ref": "mine.py:Mixed", "root": str(folder), "inputs": given}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter announces its own end
        onnx_from_source(Job({"source": start}, out, {}))
    return build_model(start), onnxruntime.InferenceSession(out / "model.onnx")


@pytest.mark.parametrize("expression", UNLIKE)
def test_types_are_promoted_as_pytorch_does(expression: str, tmp_path: Path) -> None:
    model, session = carried(CODE % expression, tmp_path)
    for shape in ((3, 8), (1, 2), (4, 17)):
        x = torch.randn(shape)
        want, got = model(x).numpy(), session.run(None, {"x": x.numpy()})[0]
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


NARROW = [
    "(2 * x.bfloat16()).cumsum(1).float()",
    "torch.relu(x.bfloat16() + x.bfloat16().mean(1, keepdim=True)).float()",
    "(x.bfloat16() @ x.bfloat16().mT).float() * (x.bfloat16().amax(1) > 0.5)[:, None]",
    "torch.nn.functional.conv1d(x.bfloat16()[:, None], torch.full((2, 1, 1), 0.3).bfloat16()).float()",
    "torch.stack([x.bfloat16(), x.bfloat16() * 3], 1)[:, 1].topk(2, 1).values.float()",
]


@pytest.mark.parametrize("expression", NARROW)
def test_bfloat16_inside_of_a_model_is_float32_rounded_after_each_operator(expression: str, tmp_path: Path) -> None:
    code = f"import torch\n\n\nclass Mixed(torch.nn.Module):\n    def forward(self, x):\n        return {expression}\n"
    model, session = carried(code, tmp_path)
    for shape in ((3, 8), (1, 2), (4, 17)):
        x = torch.randn(shape)
        assert np.array_equal(session.run(None, {"x": x.numpy()})[0], model(x).numpy())


def run(nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, int], feeds: dict[str, Any]) -> list[Any]:
    given = [helper.make_tensor_value_info(name, *each) for name, each in inputs.items()]
    made = [helper.make_tensor_value_info(name, kind, ["n"]) for name, kind in outputs.items()]
    graph = helper.make_graph(nodes, "graph", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    insert_casts(model)
    onnx.checker.check_model(model, full_check=True)
    answers: list[Any] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    return answers


def test_a_state_of_a_loop_has_the_type_that_its_steps_make_of_it() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "half"], ["next"]),
            helper.make_node("Identity", ["on"], ["still"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("at", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.INT64, None),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.INT64, None),
        ],
    )
    loop = helper.make_node("Loop", ["times", "", "first"], ["last"], body=body)
    inputs = {
        "times": (TensorProto.INT64, []), "first": (TensorProto.INT64, [2]), "half": (TensorProto.FLOAT, [2])
    }  # fmt: skip
    for times in (0, 3):
        feeds = {"times": np.array(times), "first": np.array([1, 2]), "half": np.full(2, 0.5, np.float32)}
        (got,) = run([loop], inputs, {"last": TensorProto.INT64}, feeds)
        assert got.dtype == np.float32
        assert got.tolist() == [1 + times / 2, 2 + times / 2]


def test_branches_give_one_type() -> None:
    def branch(name: str, kind: int) -> Any:
        value = helper.make_tensor(f"{name}.value", kind, [1], [1])
        node = helper.make_node("Constant", [], [name], value=value)
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, kind, [1])])

    then, other = branch("one", TensorProto.INT64), branch("two", TensorProto.FLOAT)
    node = helper.make_node("If", ["asked"], ["made"], then_branch=then, else_branch=other)
    for asked in (True, False):
        feeds = {"asked": np.array(asked)}
        (got,) = run([node], {"asked": (TensorProto.BOOL, [])}, {"made": TensorProto.INT64}, feeds)
        assert got.dtype == np.float32


def test_what_fits_together_is_left_as_it_is() -> None:
    nodes = [helper.make_node("Pow", ["x", "n"], ["y"]), helper.make_node("Gather", ["y", "n"], ["z"])]
    given = [helper.make_tensor_value_info("x", 1, ["a"]), helper.make_tensor_value_info("n", 1, ["a"])]
    nodes[1].input[1] = "at"
    given.append(helper.make_tensor_value_info("at", 7, ["a"]))
    graph = helper.make_graph(nodes, "graph", given, [helper.make_tensor_value_info("z", 1, ["a"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    before = model.SerializeToString()
    insert_casts(model)
    assert model.SerializeToString() == before
