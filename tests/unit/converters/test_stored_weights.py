"""Weights are counted by the dtype in which a file stores them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from transload.converters.conversion_records import StoredPrecision, StoredWeights
from transload.converters.stored_weights import stored_precision
from transload.models.artifact import read_artifact, write_artifact
from transload.models.formats import Format, Precision, Target, parse_target
from transload.models.signature import Signature, TensorSpec

SIGNATURE = Signature((TensorSpec("x", "float32", ("batch", 4)),), (TensorSpec("y", "float32", ("batch", 4)),))


def counted(folder: Path, target: str, payload: bytes) -> StoredPrecision | None:
    write_artifact(_put(folder, target, payload), parse_target(target), SIGNATURE)
    return stored_precision(read_artifact(folder))


def _put(folder: Path, target: str, payload: bytes) -> Path:
    (folder / ("model.tflite" if target.startswith("tflite") else "model.onnx")).write_bytes(payload)
    return folder


def onnx_file(nodes: list[onnx.NodeProto], **constants: Any) -> bytes:
    kept = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    return bytes(helper.make_model(helper.make_graph(nodes, "g", [], [], kept)).SerializeToString())


def weights(**rows: tuple[int, int]) -> tuple[StoredWeights, ...]:
    return tuple(StoredWeights(dtype=dtype, tensors=count, bytes=size) for dtype, (count, size) in rows.items())


def test_scales_zero_points_and_the_models_own_integers_are_no_weights(tmp_path: Path) -> None:
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "s", "z8"], ["wd"]),
        node("MatMul", ["d", "wd"], ["m"]),
        node("Gather", ["m", "rows"], ["g"]),
        node("Add", ["g", "bias"], ["y"]),
    ]
    payload = onnx_file(
        nodes,
        s=np.float32(0.1), z=np.uint8(0), z8=np.int8(0), w=np.ones((4, 4), np.int8), bias=np.ones(4, np.float32),
        rows=np.arange(3), table=np.ones(9, np.uint8),
    )  # fmt: skip
    stored = StoredPrecision(weights=weights(float32=(1, 16), int8=(1, 16)), computed=("uint8",))
    assert counted(tmp_path, "onnx:int8", payload) == stored


def test_constants_in_nodes_and_in_branches_count(tmp_path: Path) -> None:
    node = helper.make_node
    half = numpy_helper.from_array(np.ones((2, 3), np.float16))
    inner = helper.make_graph(
        [node("Constant", [], ["c"], value=half)], "then", [], [helper.make_tensor_value_info("c", 10, [2, 3])],
        [numpy_helper.from_array(np.ones(5, np.float32), "inside")],
    )  # fmt: skip
    nodes = [
        node("If", ["b"], ["i"], then_branch=inner, else_branch=inner),
        node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    stored = counted(tmp_path, "onnx:fp16", onnx_file(nodes, b=True))
    assert stored == StoredPrecision(weights=weights(float32=(2, 40), float16=(2, 24)))


def test_a_cast_to_half_precision_counts_as_computed(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16), helper.make_node("Abs", ["h"], ["y"])]
    stored = counted(tmp_path, "onnx:fp16", onnx_file(nodes))
    assert stored == StoredPrecision(computed=("float16",))
    assert stored.is_reduced_to(Precision.FP16)


def tflite_file(size: int, precision: Precision) -> bytes:
    """A dense layer of `size` x `size` as TensorFlow's converter writes it."""
    import tensorflow as tf

    layer = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32)
    module = tf.Module()
    module.serve = tf.function(
        lambda x: tf.nn.relu(x @ layer) + np.float32(0.5), input_signature=[tf.TensorSpec([None, size], tf.float32)]
    )
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.serve.get_concrete_function()], module)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision is Precision.FP16:
        converter.target_spec.supported_types = [tf.float16]
    return bytes(converter.convert())


@pytest.mark.parametrize(
    ("size", "precision", "dtype"),
    [
        (40, Precision.INT8_DYNAMIC, "int8"),
        (8, Precision.INT8_DYNAMIC, "float32"),
        (8, Precision.FP16, "float16"),
    ],
)
def test_a_tflite_file_is_counted_by_its_buffers(tmp_path: Path, size: int, precision: Precision, dtype: str) -> None:
    target = Target(Format.TFLITE, precision)
    stored = counted(tmp_path, str(target), tflite_file(size, precision))
    assert stored is not None
    width = {"int8": 1, "float16": 2, "float32": 4}[dtype]
    assert stored.weights[0].dtype == dtype
    assert size * size * width <= stored.weights[0].bytes <= size * size * width + 2 * width
    assert stored.is_reduced_to(precision) == (dtype != "float32")
    if dtype == "float32":
        sentence = f"nothing is reduced to {precision}: all "
        assert (stored.why_not_reduced(target) or "").startswith(sentence)
        assert "no weight of fewer than 1,024 elements; use tflite:int8 or tflite" in str(
            stored.why_not_reduced(target)
        )


def test_a_file_for_flex_is_counted_in_a_python_that_has_tensorflow_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = parse_target("tflite:int8-dynamic")
    write_artifact(_put(tmp_path, str(target), tflite_file(40, target.precision)), target, SIGNATURE, ("FlexErf",))
    with_litert = stored_precision(read_artifact(tmp_path))
    monkeypatch.setitem(sys.modules, "ai_edge_litert.schema_py_generated", None)
    assert stored_precision(read_artifact(tmp_path)) == with_litert
    assert with_litert is not None
    assert with_litert.weights[0].dtype == "int8"


def test_other_formats_are_not_counted(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").touch()
    write_artifact(tmp_path, Target(Format.PT2), SIGNATURE)
    assert stored_precision(read_artifact(tmp_path)) is None
