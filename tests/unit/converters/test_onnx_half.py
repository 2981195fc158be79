"""ONNX in float16 whose values leave float16's range: seen in float16 arithmetic, and kept in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from transload.converters.minimal_repro.onnx_pieces import OnnxCutter
from transload.converters.onnx_half import wide_values, write_half
from transload.models.artifact import Artifact
from transload.models.dataset import Dataset
from transload.models.formats import Format, Target
from transload.models.signature import Array, Signature, TensorSpec

X = np.linspace(0.5, 3.0, 24, dtype=np.float32).reshape(6, 4)


def made(folder: Path, scale: float) -> Artifact:
    """Return y = ((x @ w) * scale) / scale, plus x: with a large scale the middle leaves float16's range."""
    weights = np.eye(4, dtype=np.float32) + np.float32(0.25)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["product"]),
        onnx.helper.make_node("Mul", ["product", "scale"], ["large"]),
        onnx.helper.make_node("Abs", ["large"], ["larger"]),
        onnx.helper.make_node("Div", ["larger", "scale"], ["small"]),
        onnx.helper.make_node("Add", ["small", "x"], ["y"]),
    ]
    tensors = [
        onnx.numpy_helper.from_array(weights, "w"),
        onnx.numpy_helper.from_array(np.array(scale, np.float32), "scale"),
    ]
    inputs, outputs = [
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 4])] for name in ("x", "y")
    ]
    graph = onnx.helper.make_graph(nodes, "net", inputs, outputs, tensors)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "model.onnx")
    signature = Signature(*((TensorSpec(name, "float32", ("batch", 4)),) for name in ("x", "y")))
    return Artifact(Target(Format.ONNX), signature, folder)


def in_half(path: Path) -> Array:
    cutter = OnnxCutter(path)
    assert cutter.record_in_half({"x": X})
    return np.asarray(cutter.values["y"])


def test_operators_of_large_values_stay_in_float32(tmp_path: Path) -> None:
    source, half = made(tmp_path, 40_000.0), tmp_path / "half.onnx"
    write_half(source.path, half)
    assert not np.isfinite(in_half(half)).all()
    wide = wide_values(source, half, Dataset({"x": X}))
    assert wide.keys() == {"large", "larger"}
    assert write_half(source.path, half, wide) == 3
    wanted = onnxruntime.InferenceSession(str(source.path)).run(None, {"x": X})[0]
    np.testing.assert_allclose(in_half(half), wanted, rtol=4e-3)
    np.testing.assert_allclose(onnxruntime.InferenceSession(str(half)).run(None, {"x": X})[0], wanted, rtol=4e-3)


@pytest.mark.parametrize("scale", [1.0, 5000.0])
def test_a_model_that_float16_holds_keeps_nothing_in_float32(tmp_path: Path, scale: float) -> None:
    source, half = made(tmp_path, scale), tmp_path / "half.onnx"
    write_half(source.path, half)
    assert wide_values(source, half, Dataset({"x": X})) == {}
