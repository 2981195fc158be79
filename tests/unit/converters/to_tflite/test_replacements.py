"""Operators that TensorFlow's converter to TFLite carries wrongly, in a SavedModel of somebody's own."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.converters.to_tflite.replacements import with_exact_operators
from transload.converters.to_tflite.tflite_from_onnx import tflite_fp32
from transload.models.artifact import read_artifact, write_artifact
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import Signature, TensorSpec

X = np.array([0, -1e-30, 1e-7, -1e-5, 0.3, -0.6, -21, 21, 95, -95, -1000, 1e19, -1e19, 4, 1.5, 6], np.float32)
Y = np.array([1, 2, 0.1, -0.1, 0.1, 0.2, 7, -7, 3, 3, 0.1, 2, 2, 2, 0.1, 0.1], np.float32)


@pytest.fixture(autouse=True)
def _in_a_workers_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compute(x: Any, y: Any) -> dict[str, Any]:
    import tensorflow as tf

    softplus = tf.math.softplus
    return {
        "softplus": softplus(x),
        "again": tf.while_loop(lambda step, _: step < 2, lambda step, each: (step + 1, softplus(each)), (0, x))[1],
        "log_sigmoid": tf.math.log_sigmoid(x),
        "log1p": tf.math.log1p(tf.abs(x)),
        "expm1": tf.math.expm1(tf.minimum(x, 80)),
        "quotient": x // y,
        "sevenths": tf.round(x) * 7 // 7,  # 7 times the reciprocal of 7 is below 1
        "whole": tf.cast(tf.round(y), tf.int32) // 2,
    }


def given(folder: Path) -> Path:
    import tensorflow as tf

    module = tf.Module()
    module.serve = tf.function(compute, input_signature=[tf.TensorSpec([None], name=name) for name in "xy"])
    tf.saved_model.save(module, str(folder / "saved_model"), signatures={"serving_default": module.serve})
    outputs = {name: "int32" if name == "whole" else "float32" for name in compute(tf.constant(X), tf.constant(Y))}
    signature = Signature(
        tuple(TensorSpec(name, "float32", ("n",)) for name in "xy"),
        tuple(TensorSpec(name, dtype, ("n",)) for name, dtype in outputs.items()),
    )
    write_artifact(folder, Target(Format.SAVED_MODEL), signature)
    return folder


def test_large_and_small_numbers_and_quotients_that_are_whole(tmp_path: Path) -> None:
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    (tmp_path / "given").mkdir()
    (tmp_path / "out").mkdir()
    tflite_fp32(Job({"source": given(tmp_path / "given")}, tmp_path / "out"))
    file = str(read_artifact(tmp_path / "out").path)
    want = compute(tf.constant(X), tf.constant(Y))
    for kernels in (OpResolverType.BUILTIN, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        got = Interpreter(file, experimental_op_resolver_type=kernels).get_signature_runner()(x=X, y=Y)
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=2e-6, atol=1e-38, err_msg=f"{name}, {kernels}")


def test_what_comes_through_is_left_as_it_is(tmp_path: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    module.serve = tf.function(lambda x: tf.cast(x, tf.int64) // 2, input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures={"serving_default": module.serve})
    assert with_exact_operators(tmp_path / "saved") == tmp_path / "saved"
