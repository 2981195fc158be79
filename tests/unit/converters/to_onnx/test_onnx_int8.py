"""Copies in int8 answer alike on processors with and without 8-bit dot products."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.converters.to_onnx.onnx_precisions import onnx_int8_from_onnx
from transload.models.artifact import read_artifact, write_artifact
from transload.models.dataset import CALIBRATION, Dataset, write_dataset
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec

COLUMNS = 64


@pytest.fixture
def largest_sums(tmp_path: Path) -> Job:
    """A product whose inputs and weights are all as large as they get, to be quantised."""
    source, data, out = tmp_path / "source", tmp_path / "data", tmp_path / "out"
    for folder in (source, data, out):
        folder.mkdir()
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", COLUMNS])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])
    weight = numpy_helper.from_array(np.ones((COLUMNS, 8), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "sums", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, source / Format.ONNX.spec.payload)
    signature = Signature(
        (TensorSpec("x", "float32", ("batch", COLUMNS)),), (TensorSpec("y", "float32", ("batch", 8)),)
    )
    write_artifact(source, Target(Format.ONNX), signature)
    write_dataset(data / CALIBRATION, Dataset({"x": np.ones((8, COLUMNS), np.float32)}))
    return Job({"source": source, "data": data}, out)


def test_no_sum_of_two_products_overflows_16_bits(
    largest_sums: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without VNNI, ONNX Runtime adds pairs of products of bytes in 16 bits, which saturate."""
    import onnxruntime

    monkeypatch.chdir(tmp_path)
    onnx_int8_from_onnx(largest_sums)
    path = read_artifact(largest_sums.out).path
    weights = [numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer]
    (bytes_of_weights,) = [array for array in weights if array.dtype == np.int8 and array.size == COLUMNS * 8]
    assert 2 * 255 * int(np.abs(bytes_of_weights.astype(int)).max()) < 2**15
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (answer,) = session.run(None, {"x": np.ones((2, COLUMNS), np.float32)})
    np.testing.assert_allclose(answer, COLUMNS, rtol=0.01)
