"""Dilated and transposed convolutions come through tf2onnx as one operator, of TensorFlow's size."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from transload.converters.readers.saved_model.saved_model_reader import import_saved_model
from transload.converters.readers.tflite.tflite_reader import import_tflite
from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model, onnx_from_tflite
from transload.serving.runtimes.onnxruntime_session import open_session as open_onnx
from transload.serving.runtimes.tensorflow_session import open_session as open_tensorflow
from transload.serving.runtimes.tflite_session import open_session as open_tflite


def test_a_dilated_convolution_is_one_where_the_crop_is_what_was_padded_for_it(tmp_path: Path, tf_models: Any) -> None:
    import tensorflow as tf

    weight = tf.constant(np.random.default_rng(1).standard_normal((3, 3, 2, 1)), tf.float32)

    def pieces(x: Any, begin: int) -> Any:
        """Cropped by `begin` more than is padded for the pieces."""
        more = tf.shape(x)[1] % 2
        apart = tf.space_to_batch(x, [2, 2], [[2, 2 + more], [2, 3]])
        made = tf.nn.depthwise_conv2d(apart, weight, [1, 1, 1, 1], "VALID")
        return tf.batch_to_space(made, [2, 2], [[begin, more], [0, 1]]), tf.reduce_sum(apart)

    def compute(x: Any) -> dict[str, Any]:
        same = tf.nn.depthwise_conv2d(x, weight, [1, 1, 1, 1], "SAME", dilations=[2, 2])
        return {"same": same, "valid": tf.nn.conv2d(x, weight, 1, "VALID", dilations=2), "alike": pieces(x, 0)[0]}

    def otherwise(x: Any) -> dict[str, Any]:
        return {"cropped": pieces(x, 1)[0], "read": sum(pieces(-x, 0))}

    for function, form in ((compute, "saved-model"), (otherwise, "saved-model"), (compute, "tflite")):
        own = tmp_path / f"{function.__name__}-{form}"
        own.mkdir()
        path = tf_models.save(own / "sm", function, tf.TensorSpec([None, None, 5, 2], name="x"))
        if form == "tflite":
            made = tf_models.convert(
                onnx_from_tflite,
                tf_models.import_file(import_tflite, tf_models.to_tflite(path, own / "m"), own / "given"),
                own / "onnx",
            )
        else:
            made = tf_models.convert(
                onnx_from_saved_model, tf_models.import_file(import_saved_model, path, own / "given"), own / "onnx"
            )
        used = {node.op_type for node in onnx.load(made / "model.onnx").graph.node}
        assert ("DepthToSpace" in used) == (function is otherwise)
        session = open_onnx(made, "cpu", 1)
        for rows in (5, 8):
            x = np.random.default_rng(rows).standard_normal((2, rows, 5, 2)).astype(np.float32)
            for name, value in function(tf.constant(x)).items():
                np.testing.assert_allclose(session.run({"x": x})[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("form", ["saved-model", "tflite"])
def test_a_transposed_convolution_is_as_large_as_it_says(form: str, tmp_path: Path, tf_models: Any) -> None:
    """Also beyond what the input spreads over, by the kernel's or by the output's size."""
    import tensorflow as tf

    rng = np.random.default_rng(1)

    def compute(x: Any) -> dict[str, Any]:
        def made(kernel: int, size: int, padding: str, stride: int = 3) -> Any:
            weight = tf.constant(rng.standard_normal((kernel, kernel, 4, 2)), tf.float32)
            shape = [tf.shape(x)[0], size, size, 4]
            return tf.nn.conv2d_transpose(x, weight, shape, stride, padding) + tf.constant([1.0, 2, 3, 4])

        valid = {f"valid_{size}": made(4, size, "VALID") for size in (16, 17, 18)}
        return valid | {f"same_{size}": made(2, size, "SAME") for size in (13, 14, 15)} | {"odd": made(5, 14, "SAME")}

    path = tf_models.save(tmp_path / "sm", compute, tf.TensorSpec([None, 5, 5, 2], name="x"))
    if form == "tflite":
        given = tf_models.import_file(
            import_tflite, tf_models.to_tflite(path, tmp_path / "m.tflite"), tmp_path / "given"
        )
        made, reference = tf_models.convert(onnx_from_tflite, given, tmp_path / "onnx"), open_tflite(given, "cpu", 1)
    else:
        given = tf_models.import_file(import_saved_model, path, tmp_path / "given")
        made, reference = (
            tf_models.convert(onnx_from_saved_model, given, tmp_path / "onnx"),
            open_tensorflow(given, "cpu", 1),
        )
    tf_models.assert_agrees(open_onnx(made, "cpu", 1), reference)
