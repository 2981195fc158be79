"""The ranges that an int8 file says its inputs were calibrated on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from transload.converters.calibrated_ranges import calibrated_ranges
from transload.models.formats import Format


def written(path: Path, *, moved: bool, quantised: bool = True, scale: float | list[float] = 0.1) -> Path:
    first = "moved" if moved else "x"
    nodes = [onnx.helper.make_node("Transpose", ["x"], ["moved"], perm=[1, 0])] if moved else []
    if quantised:
        nodes.append(onnx.helper.make_node("QuantizeLinear", [first, "scale", "zero"], ["q"]))
        nodes.append(onnx.helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]))
    else:
        nodes.append(onnx.helper.make_node("Relu", [first], ["y"]))
    tensors = [
        onnx.numpy_helper.from_array(np.asarray(scale, np.float32), "scale"),
        onnx.numpy_helper.from_array(np.full(np.shape(scale), 55, np.uint8), "zero"),
    ]
    inputs, outputs = (
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 2])] for name in ("x", "y")
    )
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "net", inputs, outputs, tensors)), path)
    return path


@pytest.mark.parametrize("moved", [False, True])
def test_the_quantiser_of_an_input_tells_its_range(tmp_path: Path, moved: bool) -> None:
    (low, high) = calibrated_ranges(written(tmp_path / "m.onnx", moved=moved), Format.ONNX)["x"]
    assert (low, high) == pytest.approx((-5.5, 20.0))


def test_an_input_without_one_quantiser_has_no_range(tmp_path: Path) -> None:
    assert calibrated_ranges(written(tmp_path / "m.onnx", moved=False, quantised=False), Format.ONNX) == {}
    assert calibrated_ranges(written(tmp_path / "n.onnx", moved=False, scale=[0.1, 0.2]), Format.ONNX) == {}
