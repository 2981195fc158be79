"""Settings with which a runtime changes less of a model than by default, by what they change in the answers."""

from __future__ import annotations

import os
import warnings

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

from transload.models.artifact import write_artifact
from transload.models.formats import Format, Target
from transload.models.signature import Signature, TensorSpec
from transload.pipeline.drift.sessions import open_session
from transload.serving.runtimes.tuning_space import REFERENCE

_VECTOR = ("batch", 4)
SIGNATURE = Signature((TensorSpec("x", "float32", _VECTOR),), (TensorSpec("y", "float32", _VECTOR),))
Values = np.ndarray[Any, Any]


def answer(runtime: str, folder: Path, x: Values, **settings: Any) -> Values:
    with closing(open_session(runtime, folder, settings=settings)) as session:
        return session.run({"x": x})["y"]


def test_onnxruntime_multiplies_no_factor_into_weights_without_optimisation(tmp_path: Path) -> None:
    arrays = {"w": np.full((1, 1, 1), 1e20, np.float32), "factor": np.full((1, 1, 1), 1e20, np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["products"]),
        helper.make_node("Mul", ["products", "factor"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 1, 4]) for name in "xy")
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9),
        tmp_path / Format.ONNX.spec.payload,
    )
    shape = ("batch", 1, 4)
    signature = Signature((TensorSpec("x", "float32", shape),), (TensorSpec("y", "float32", shape),))
    write_artifact(tmp_path, Target(Format.ONNX), signature)
    feed = np.full((1, 1, 4), 1e-20, np.float32)
    assert np.isinf(answer("onnxruntime", tmp_path, feed)).all()
    assert np.allclose(answer("onnxruntime", tmp_path, feed, level="ORT_DISABLE_ALL"), 1e20)


def test_onnxruntime_adds_products_of_bytes_exactly_where_it_is_asked_to(tmp_path: Path) -> None:
    """On a processor without VNNI they saturate by default: 64 · 255 · 127 becomes 32 · 32767."""
    weight = numpy_helper.from_array(np.full((64, 2), 127, np.int8), "w")
    nodes = [
        helper.make_node("Cast", ["x"], ["bytes"], to=TensorProto.UINT8),
        helper.make_node("MatMulInteger", ["bytes", "w"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["y"], to=TensorProto.FLOAT),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])
    model = helper.make_model(
        helper.make_graph(nodes, "net", [x], [y], [weight]), opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )
    save(model, tmp_path / Format.ONNX.spec.payload)
    signature = Signature((TensorSpec("x", "float32", ("batch", 64)),), (TensorSpec("y", "float32", ("batch", 2)),))
    write_artifact(tmp_path, Target(Format.ONNX), signature)
    feed = np.full((3, 64), 255, np.float32)
    assert (answer("onnxruntime", tmp_path, feed, **REFERENCE["onnxruntime"]) == 64 * 255 * 127).all()


def test_tflite_adds_infinities_by_its_own_kernel_without_xnnpack(tmp_path: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    spec = tf.TensorSpec([None, 4], tf.float32, name="x")
    module.serve = tf.function(lambda x: {"y": x + x}, input_signature=[spec])
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.serve.get_concrete_function()], module)
    (tmp_path / Format.TFLITE.spec.payload).write_bytes(converter.convert())
    write_artifact(tmp_path, Target(Format.TFLITE), SIGNATURE)
    feed = np.full((1, 4), -np.inf, np.float32)
    assert np.isneginf(answer("tflite", tmp_path, feed)).all()
    plain = answer("tflite", tmp_path, feed, kernels="BUILTIN_WITHOUT_DEFAULT_DELEGATES")
    assert (plain == np.finfo(np.float32).min).all()


def test_torchscript_multiplies_no_batch_norm_into_weights_without_optimisation(tmp_path: Path) -> None:
    import torch

    conv, norm = torch.nn.Conv1d(1, 1, 1, bias=False), torch.nn.BatchNorm1d(1)
    torch.nn.init.constant_(conv.weight, 1e20)
    torch.nn.init.constant_(norm.weight, 1e20)
    shape = ("batch", 1, 4)
    signature = Signature((TensorSpec("x", "float32", shape),), (TensorSpec("y", "float32", shape),))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(torch.nn.Sequential(conv, norm).eval())
        scripted.save(str(tmp_path / Format.TORCHSCRIPT.spec.payload))
    write_artifact(tmp_path, Target(Format.TORCHSCRIPT), signature)
    feed = np.full((1, 1, 4), 1e-20, np.float32)
    assert not np.isfinite(answer("torchscript", tmp_path, feed)).any()
    assert np.isfinite(answer("torchscript", tmp_path, feed, optimise=False)).all()
