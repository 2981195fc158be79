"""Operators that tf2onnx lacks or converts wrongly give TensorFlow's or LiteRT's values in ONNX."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.converters.readers.saved_model.saved_model_reader import import_saved_model
from transload.converters.readers.tflite.tflite_reader import import_tflite
from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model, onnx_from_tflite
from transload.converters.to_tflite.flatbuffer import model_of
from transload.serving.runtimes.onnxruntime_session import open_session as open_onnx
from transload.serving.runtimes.tensorflow_session import open_session as open_tensorflow
from transload.serving.runtimes.tflite_session import open_session as open_tflite


def clipped(x: Any, low: float, high: float) -> Any:
    import tensorflow as tf

    return tf.minimum(tf.maximum(x, low), high)


def whole(tf: Any, x: Any) -> Any:
    return tf.cast(x * 7, tf.int32)


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Erfc": lambda tf, x: tf.math.erfc(x),
    "Expm1": lambda tf, x: tf.math.expm1(x),
    "Log1p": lambda tf, x: tf.math.log1p(tf.abs(x)),
    "FloorMod": lambda tf, x: x % 0.7 + x % -0.7,
    "FloorDiv": lambda tf, x: x // 0.7,
    "FloorMod of whole numbers": lambda tf, x: tf.cast(whole(tf, x) % 3 + 10 * (whole(tf, x) % -4), tf.float32),
    "FloorDiv of whole numbers": lambda tf, x: tf.cast(whole(tf, x) // 3 + 10 * (whole(tf, x) // -4), tf.float32),
    "SelectV2": lambda tf, x: tf.where(x > 0, tf.math.log(x), tf.where(x < -1, tf.math.sqrt(x + 1), x)),
    "Select": lambda tf, x: tf.raw_ops.Select(condition=x[:, 0] > 0.2, x=tf.math.log(x), y=x),
    "Bucketize": lambda tf, x: tf.cast(
        tf.raw_ops.Bucketize(input=tf.where(x > 1, np.nan, tf.where(x < -1, 0.25, x)), boundaries=[-0.5, 0.25, 0.5])
        + 10 * tf.raw_ops.Bucketize(input=whole(tf, x), boundaries=[-3, 0, 2.5]),
        tf.float32,
    ),
    "OneHot": lambda tf, x: tf.one_hot(whole(tf, x), 4, on_value=2.0, off_value=-1.0),
    "OneHot along another axis, of whole numbers": lambda tf, x: tf.cast(
        tf.one_hot(whole(tf, x), tf.shape(x)[1], axis=1, dtype=tf.int32), tf.float32
    ),
    "ScatterNd": lambda tf, x: tf.scatter_nd(tf.abs(whole(tf, x))[..., None] % 3, x, [3]),
    "Bitcast for a sign": lambda tf, x: tf.cast(
        tf.bitwise.bitwise_and(tf.bitcast(tf.math.ceil(x), tf.int32), tf.int32.min) < 0, tf.float32
    ),
    "BroadcastArgs": lambda tf, x: tf.broadcast_to(
        x, tf.raw_ops.BroadcastArgs(s0=tf.shape(x), s1=tf.stack([2, 1, tf.shape(x)[1]]))
    ),
}


def ids(tf: Any, x: Any, low: int) -> Any:
    """Of the rows, in order, from `low` on; none has the id low + 1."""
    return tf.cast(tf.range(tf.shape(x)[0]) > 0, tf.int32) * 2 + low


def segments(tf: Any, x: Any) -> Any:
    whole_ones, at = whole(tf, x), ids(tf, x, 0)
    of_floats = (tf.math.segment_sum, tf.math.segment_mean, tf.math.segment_max, tf.math.segment_min)
    found = [each(x, at) for each in of_floats] + [tf.math.segment_prod(x[..., None], at)[..., 0]]
    return tf.concat([*found, tf.cast(tf.math.segment_max(whole_ones, at), tf.float32)], 0)


def unsorted(tf: Any, x: Any) -> Any:
    """Of both axes, and of one alone; the first row has no segment."""
    at = ids(tf, x, -1)
    each = tf.tile(at[:, None], [1, tf.shape(x)[1]])
    found = [tf.math.unsorted_segment_sum(x, each, 4), tf.math.unsorted_segment_max(x, each, 4)]
    rows = [tf.math.unsorted_segment_prod(x, at, 3), tf.math.unsorted_segment_min(x, at, 3)]
    return tf.concat([*found, *(tf.reshape(each, [-1]) for each in rows)], 0)


def diagonals(tf: Any, x: Any) -> Any:
    """Of one matrix for each row: the diagonal, one beside it, one below, and matrices with other ones."""
    many = x[:, None, :] * tf.range(1.0, 4.0)[:, None]
    parts = [tf.linalg.diag_part(many, k=k) for k in (0, 2, -1)]
    changed = [tf.linalg.set_diag(many, part + 1, k=k) for k, part in zip((0, 2, -1), parts, strict=True)]
    return tf.concat([tf.linalg.trace(many), *(tf.reshape(each, [-1]) for each in [*parts, *changed])], 0)


def matrices(tf: Any, x: Any) -> Any:
    """With the rows as diagonals: square ones, and others, of which more is said than the diagonal."""
    made = [tf.linalg.diag(x), tf.raw_ops.MatrixDiag(diagonal=x), tf.linalg.diag(x, k=2), tf.linalg.diag(x, k=-1)]
    made += [tf.linalg.diag(x, num_cols=7, padding_value=9.0), tf.linalg.diag(x, k=1, num_rows=8)]
    made += [tf.raw_ops.MatrixDiagV2(diagonal=x, k=0, num_rows=-1, num_cols=-1, padding_value=3.0)]
    return tf.concat([tf.reshape(each, [tf.shape(x)[0], -1]) for each in made], 1)


def top(tf: Any, x: Any) -> Any:
    """Of whole numbers that float32 does not have, and of equal ones."""
    large = tf.cast(x * 3, tf.int32) + 2**30
    found = [tf.sort(large, 1), *tf.math.top_k(large, 2), tf.cast(tf.sort(tf.cast(large, tf.uint32), 0), tf.int32)]
    return tf.concat([each - (2**30 if at != 2 else 0) for at, each in enumerate(found)], -1)


def crops(tf: Any, x: Any) -> Any:
    """Within a picture, beyond it, turned around, and to one pixel."""
    pictures = tf.reshape(tf.concat([x, x * x], 0), [2, tf.shape(x)[0], 5, 1])
    boxes = tf.constant([[0.1, 0.2, 0.7, 1], [-0.2, 0, 0.5, 1.4], [0.8, 0.9, 0.2, 0.1], [0, 0.25, 1, 0.75]])
    crop = tf.image.crop_and_resize
    return tf.concat(
        [
            tf.reshape(crop(pictures, boxes, [0, 1, 1, 0], [4, 3], extrapolation_value=7), [-1]),
            tf.reshape(crop(pictures, boxes, [0, 1, 1, 0], [1, tf.shape(x)[0]], method="nearest"), [-1]),
        ],
        0,
    )


OPERATORS |= {
    "CropAndResize": crops,
    "ScatterNd in two axes": lambda tf, x: tf.scatter_nd(
        tf.abs(tf.stack([whole(tf, x), whole(tf, x)], -1)) % 3, x, [3, 4]
    ),
    "Segments": segments,
    "UnsortedSegments": unsorted,
    "MatrixDiagPart": diagonals,
    "MatrixDiag": matrices,
    "Reshape by another's size": lambda tf, x: tf.tanh(
        tf.reshape(tf.tanh(tf.reshape(x, [-1, 1])), [tf.shape(tf.cos(x))[0], -1])
    ),
    "Reshape by its own size": lambda tf, x: tf.reshape(x, [tf.shape(x)[0], -1]),
    "cross entropies": lambda tf, x: (
        tf.nn.softmax_cross_entropy_with_logits(tf.abs(x), 100 * x)
        + tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(x)[0]), 100 * x)
    ),
    "rows of several lengths": lambda tf, x: tf.ragged.boolean_mask(x, x > 0).to_tensor(-1.0),
    "TopK": lambda tf, x: tf.cast(top(tf, x), tf.float32),
    "InTopK": lambda tf, x: tf.cast(
        tf.math.in_top_k(tf.range(4, 4 + tf.shape(x)[0]) % 7, tf.where(x > 1, np.inf, tf.round(x)), 2), tf.float32
    ),
}


OF_TFLITE: dict[str, Callable[[Any, Any], Any]] = {
    "ONE_HOT": OPERATORS["OneHot"],
    "SCATTER_ND": OPERATORS["ScatterNd"],
    "GELU": lambda tf, x: tf.nn.gelu(x),
    "GELU by tanh": lambda tf, x: tf.nn.gelu(x, approximate=True),
    "RELU_N1_TO_1": lambda tf, x: clipped(x, -1, 1),
    "SELECT_V2": lambda tf, x: tf.where(x > 0, tf.math.log(x), x),
    "BROADCAST_ARGS": OPERATORS["BroadcastArgs"],
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_that_tf2onnx_lacks(name: str, tmp_path: Path, tf_models: Any) -> None:
    import tensorflow as tf

    folder = tf_models.save(
        tmp_path / "sm", lambda x: {"y": OPERATORS[name](tf, x)}, tf.TensorSpec([None, 5], name="x")
    )
    made = tf_models.convert(
        onnx_from_saved_model, tf_models.import_file(import_saved_model, folder, tmp_path / "given"), tmp_path / "onnx"
    )
    session = open_onnx(made, "cpu", 1)
    for batch in (1, 3):
        x = np.random.default_rng(0).standard_normal((batch, 5)).astype(np.float32)
        np.testing.assert_allclose(session.run({"x": x})["y"], OPERATORS[name](tf, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", ["saved-model", "tflite"])
def test_floors_of_quotients_and_what_is_left_are_the_runtimes_own(form: str, tmp_path: Path, tf_models: Any) -> None:
    """Where a quotient is rounded up to a whole number they differ between runtimes: LiteRT divides in double."""
    import tensorflow as tf

    def compute(x: Any, y: Any) -> dict[str, Any]:
        return {"mod": x % y, "div": x // y}

    folder = tf_models.save(tmp_path / "sm", compute, *(tf.TensorSpec([None, 6], name=name) for name in "xy"))
    if form == "tflite":
        given = tf_models.import_file(
            import_tflite, tf_models.to_tflite(folder, tmp_path / "m.tflite"), tmp_path / "given"
        )
        made, reference = tf_models.convert(onnx_from_tflite, given, tmp_path / "onnx"), open_tflite(given, "cpu", 1)
    else:
        given = tf_models.import_file(import_saved_model, folder, tmp_path / "given")
        made, reference = (
            tf_models.convert(onnx_from_saved_model, given, tmp_path / "onnx"),
            open_tensorflow(given, "cpu", 1),
        )
    x = np.array([[-1.5, 1.5, 0.6, 1e4, -0.0, 7], [1.2, -0.3, 1e-30, np.inf, -6, np.nan]], np.float32)
    y = np.array([[-0.1, 0.3, 0.2, -3, 2, -7], [-0.3, 0.1, 1e-31, 2, np.inf, 1]], np.float32)
    want, got = reference.run({"x": x, "y": y}), open_onnx(made, "cpu", 1).run({"x": x, "y": y})
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, name)


def test_small_numbers_keep_their_digits(tmp_path: Path, tf_models: Any) -> None:
    import tensorflow as tf

    spec = tf.TensorSpec([None], name="x")
    folder = tf_models.save(tmp_path / "sm", lambda x: {"e": tf.math.expm1(x), "l": tf.math.log1p(x)}, spec)
    made = tf_models.convert(
        onnx_from_saved_model, tf_models.import_file(import_saved_model, folder, tmp_path / "given"), tmp_path / "onnx"
    )
    x = np.array([1e-30, 3e-8, -1.7e-6, 0.003, -0.49, 0.51, 0, -1, 90, np.inf, -np.inf, -2], np.float32)
    got = open_onnx(made, "cpu", 1).run({"x": x})
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got["e"], np.expm1(x), rtol=1e-6)
        np.testing.assert_allclose(got["l"], np.log1p(x), rtol=1e-6)


def kernels(model: Any) -> set[str]:
    from ai_edge_litert.schema_py_generated import BuiltinOperator

    codes = {model.OperatorCodes(at).BuiltinCode() for at in range(model.OperatorCodesLength())}
    return {name for name, code in vars(BuiltinOperator).items() if code in codes}


@pytest.mark.parametrize("name", OF_TFLITE)
def test_operators_of_tflite_that_tf2onnx_lacks(name: str, tmp_path: Path, tf_models: Any) -> None:
    import tensorflow as tf

    folder = tf_models.save(
        tmp_path / "sm", lambda x: {"y": OF_TFLITE[name](tf, x)}, tf.TensorSpec([None, 5], name="x")
    )
    given = tf_models.import_file(import_tflite, tf_models.to_tflite(folder, tmp_path / "m.tflite"), tmp_path / "given")
    codes = model_of((given / "model.tflite").read_bytes())
    assert name.split(maxsplit=1)[0] in kernels(codes), "the operator that this is about"
    tf_models.assert_agrees(
        open_onnx(tf_models.convert(onnx_from_tflite, given, tmp_path / "onnx"), "cpu", 1), open_tflite(given, "cpu", 1)
    )


def test_the_rectifier_that_ends_at_one(tmp_path: Path, tf_models: Any) -> None:
    """TensorFlow's converter spells it in two operators; other tools write it."""
    import tensorflow as tf
    from ai_edge_litert import schema_py_generated as schema

    folder = tf_models.save(tmp_path / "sm", lambda x: {"y": clipped(x, -1, 1)}, tf.TensorSpec([None, 5], name="x"))

    def change(model: Any) -> None:
        (code,) = model.operatorCodes
        code.builtinCode, code.deprecatedBuiltinCode = schema.BuiltinOperator.RELU_0_TO_1, 127

    tf_models.edit_tflite(tf_models.to_tflite(folder, tmp_path / "m.tflite"), change)
    given = tf_models.import_file(import_tflite, tmp_path / "m.tflite", tmp_path / "given")
    session = open_onnx(tf_models.convert(onnx_from_tflite, given, tmp_path / "onnx"), "cpu", 1)
    x = np.array([[-2, -0.5, 0.5, 1, 2]], np.float32)
    np.testing.assert_array_equal(session.run({"x": x})["y"], np.clip(x, 0, 1))
    tf_models.assert_agrees(session, open_tflite(given, "cpu", 1))
