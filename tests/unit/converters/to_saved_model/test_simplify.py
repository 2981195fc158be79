"""Choices of one of several functions, from TensorFlow to ONNX and TFLite."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.converters.readers.saved_model.saved_model_reader import import_saved_model
from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model
from transload.converters.to_tflite.tflite_from_onnx import tflite_fp32
from transload.models.artifact import read_artifact
from transload.models.job import Job
from transload.models.store import digest_of
from transload.serving.runtimes.onnxruntime_session import open_session


@pytest.fixture(autouse=True)
def _in_a_workers_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_choice_of_several_takes_the_last_where_there_is_no_such(tmp_path: Path) -> None:
    """In a branch and in a loop, too, and of functions with weights, of which a loop looks some up."""
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter

    weight, table = (
        tf.Variable(np.array([1, 2, 3, 4], np.float32)),
        tf.Variable(np.array([[1, 2], [3, 5], [7, 9], [8, 6]], np.float32)),
    )

    def compute(x: Any, n: Any) -> dict[str, Any]:
        def inner() -> Any:
            return tf.switch_case(n - 2, [lambda: x * weight, lambda: -x, lambda: x - weight])

        def step(at: Any, each: Any) -> Any:
            return at + 1, tf.switch_case(at, [lambda: each + 1, lambda: each * 2, lambda: each - weight])

        def looked_up(at: Any, each: Any) -> Any:
            return at + 1, each + tf.gather(table, [at, 3 - at]) * tf.gather_nd(table, [[at, 1]])

        once = tf.switch_case(n, [lambda: x * weight, lambda: x + 5, inner, lambda: x * 10])
        repeated = tf.while_loop(lambda at, _: at < 4, step, (0, x))[1]
        either, asked = tf.switch_case(n, [lambda: (x, n), lambda: (x + 1, n * 2)])
        summed = tf.while_loop(lambda at, _: at < 4, looked_up, (0, tf.zeros([2, 2])))[1]
        return {"summed": summed, "once": once, "repeated": repeated, "either": either, "asked": asked}

    module = tf.Module()
    module.weights = weight, table
    specs = [tf.TensorSpec([None, 4], name="x"), tf.TensorSpec([], tf.int32, name="n")]
    module.serve = tf.function(compute, input_signature=specs, autograph=False)
    saved = tmp_path / "saved"
    tf.saved_model.save(module, str(saved), signatures={"serving_default": module.serve})
    for name in ("given", "onnx", "tflite"):
        (tmp_path / name).mkdir()
    import_saved_model(Job({}, tmp_path / "given", {"path": str(saved), "sha256": digest_of(saved)}))
    onnx_from_saved_model(Job({"source": tmp_path / "given"}, tmp_path / "onnx"))
    tflite_fp32(Job({"source": tmp_path / "given"}, tmp_path / "tflite"))
    onnx = open_session(tmp_path / "onnx", "cpu", 1)
    tflite = Interpreter(str(read_artifact(tmp_path / "tflite").path)).get_signature_runner()
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    for at in (-(2**31), -1, 0, 1, 2, 3, 4, 2**31 - 1):
        feeds = {"x": x, "n": np.int32(at)}
        want = module.serve(**{name: tf.constant(value) for name, value in feeds.items()})
        for got in (onnx.run({"x": x, "n": np.array(at, np.int32)}), tflite(**feeds)):
            for name, value in want.items():
                np.testing.assert_allclose(got[name], value, rtol=1e-6, err_msg=f"{name} of {at}")
