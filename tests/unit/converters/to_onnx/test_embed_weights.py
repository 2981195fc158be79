"""Weights beside an ONNX file, taken into it: the same bytes as protobuf writes. onnx and numpy alone are loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.converters.to_onnx.embed_weights import embed_weights

PLENTY = 1 << 30


def weight(name: str, *shape: int) -> TensorProto:
    made = numpy_helper.from_array(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), name)
    made.doc_string = f"{name} behind the numbers"
    return made


def branch(name: str, size: int) -> onnx.GraphProto:
    out = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [size])
    return helper.make_graph(
        [helper.make_node("Identity", [name], [f"{name}_out"])], name, [], [out], [weight(name, size)]
    )


@pytest.fixture
def model() -> onnx.ModelProto:
    """Large weights and a small one, one inside a branch, and fields before and behind them at every level."""
    nodes = [
        helper.make_node("MatMul", ["x", "large"], ["y"]),
        helper.make_node("If", ["flag"], ["z"], then_branch=branch("one", 300), else_branch=branch("two", 300)),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 40])
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    outs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")]
    weights = [weight("large", 40, 70), weight("small", 2), weight("other", 300)]
    graph = helper.make_graph(nodes, "g", [x, flag], outs, weights, "what it is")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], producer_name="test")
    helper.set_model_props(made, {"key": "value"})
    return made


def saved(model: onnx.ModelProto, path: Path) -> bytes:
    """The bytes of the model as one file; at `path` it lies with its weights beside it."""
    whole = model.SerializeToString()
    onnx.save_model(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=256)
    return bytes(whole)


def test_the_file_has_the_bytes_that_protobuf_writes(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    whole = saved(model, path)
    assert path.stat().st_size < len(whole) - 40 * 70 * 4  # the weights lay beside it
    embed_weights(path, PLENTY)
    assert path.read_bytes() == whole
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_weights_that_are_too_many_stay_beside_the_file(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    saved(model, path)
    before = path.read_bytes()
    embed_weights(path, 1000)
    assert path.read_bytes() == before
    assert (tmp_path / "model.onnx.data").is_file()


def test_a_file_with_nothing_beside_it_stays_what_it_is(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    embed_weights(path, PLENTY)
    assert path.read_bytes() == model.SerializeToString()
