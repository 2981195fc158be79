"""Whole numbers from TensorFlow and TFLite to ONNX: as they are, where float32 has not all of them."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from transload.converters.readers.saved_model.saved_model_reader import import_saved_model
from transload.converters.readers.tflite.tflite_reader import import_tflite
from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model, onnx_from_tflite
from transload.models.job import Job
from transload.models.signature import TensorSpec
from transload.models.store import digest_of
from transload.serving.runtimes.onnxruntime_session import open_session

Compute = Callable[[Any, Any], dict[str, Any]]


@pytest.fixture(autouse=True)
def _in_a_workers_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def onnx_of(compute: Compute, form: str, dtype: str, folder: Path) -> Any:
    """A session of the ONNX made from a function of a and b (batch, 4), by way of this form."""
    import tensorflow as tf

    module = tf.Module()
    specs = [tf.TensorSpec([None, 4], dtype, name=name) for name in "ab"]
    module.serve = tf.function(compute, input_signature=specs, autograph=False)
    path = folder / "saved"
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.serve})
    if form == "tflite":
        (folder / "m.tflite").write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(path)).convert())
        path = folder / "m.tflite"
    for name in ("given", "onnx"):
        (folder / name).mkdir()
    inputs = [TensorSpec(name, dtype, ("batch", 4)).to_json() for name in "ab"]
    take, convert = (
        (import_tflite, onnx_from_tflite) if form == "tflite" else (import_saved_model, onnx_from_saved_model)
    )
    take(Job({}, folder / "given", {"path": str(path), "sha256": digest_of(path), "inputs": inputs}))
    convert(Job({"source": folder / "given"}, folder / "onnx"))
    return open_session(folder / "onnx", "cpu", 1)


def holds(compute: Compute, form: str, dtype: str, folder: Path) -> None:
    """That ONNX gives the same for numbers that lie next to each other, small and as large as the dtype has them."""
    import tensorflow as tf

    session = onnx_of(compute, form, dtype, folder)
    ends = np.iinfo(dtype)
    large = ends.max // 4 * 3
    a = np.array([[1, 5, 17, 100], [min(2**24, large), large, large - 1, ends.min + 2]], dtype)
    for b in (each.astype(dtype) for each in (a + 1, a, a - 1)):
        for name, want in compute(tf.constant(a), tf.constant(b)).items():
            np.testing.assert_array_equal(session.run({"a": a, "b": b})[name], want, err_msg=f"{name} of {dtype}")


def compared(a: Any, b: Any) -> dict[str, Any]:
    import tensorflow as tf

    lesser = tf.cond(tf.reduce_any(a < b), lambda: a, lambda: b)
    return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "either": lesser, "where": tf.where(a > b, b, a)}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("form", ["saved-model", "tflite"])
def test_whole_numbers_next_to_each_other_are_told_apart(form: str, dtype: str, tmp_path: Path) -> None:
    holds(compared, form, dtype, tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
def test_whole_numbers_of_every_dtype_are_compared_and_padded(dtype: str, tmp_path: Path) -> None:
    import tensorflow as tf

    def compute(a: Any, b: Any) -> dict[str, Any]:
        ends = [[0, 0], [1, 2]]
        padded = tf.pad(a, ends), tf.pad(a, ends, constant_values=7), tf.pad(b, ends, "REFLECT")
        return {"less": a < b, "greater": a > b, **{f"padded_{at}": each for at, each in enumerate(padded)}}

    holds(compute, "saved-model", dtype, tmp_path)


@pytest.mark.parametrize(("dtype", "wider"), [("uint16", "int32"), ("uint32", "int64")])
def test_numbers_without_a_sign_are_compared_in_what_pytorch_compares(dtype: str, wider: str, tmp_path: Path) -> None:
    onnx_of(lambda a, b: {"y": a < b}, "saved-model", dtype, tmp_path)
    nodes = onnx.load(tmp_path / "onnx" / "model.onnx").graph.node
    (less,) = (node for node in nodes if node.op_type == "Less")
    casts = {node.output[0]: node.attribute[0].i for node in nodes if node.op_type == "Cast"}
    assert [casts[name] for name in less.input] == [onnx.helper.np_dtype_to_tensor_dtype(np.dtype(wider))] * 2


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_what_tf2onnx_writes_of_floats_alone_takes_whole_numbers(dtype: str, tmp_path: Path) -> None:
    import tensorflow as tf

    def compute(a: Any, b: Any) -> dict[str, Any]:
        order = tf.argsort(-a[1])
        return {
            "sum": tf.add_n([a // 4, b // 4, b // 4]),
            "left": tf.truncatemod(a, b - 3) + tf.truncatemod(-a, b - 3),
            "inverted": tf.math.invert_permutation(tf.cast(order, a.dtype)),
            "largest": tf.nn.max_pool2d(tf.reshape(a // 2**10, [2, 2, 2, 1]), 2, 1, "SAME"),
        }

    holds(compute, "saved-model", dtype, tmp_path)
