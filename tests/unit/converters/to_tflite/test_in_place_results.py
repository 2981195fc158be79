"""Results that XNNPACK may write onto what they are made of are not left where it can, in files of two free sizes."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from transload.converters.to_tflite import tflite_from_onnx as tflite
from transload.converters.to_tflite.flatbuffer import count_operators, main_operators
from transload.converters.to_tflite.xnnpack_workarounds import without_shared_places
from transload.models.artifact import write_artifact
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.signature import ANY_SIZE, Bounds, Signature, TensorSpec

# Memory is planned for many rows, then planned anew at one row, as more samples come; then all fits.
SIZES = ((1, 64), (16, 1), (16, 3))


def file_of(function: Callable[[Any], Any], *shape: int | None) -> bytes:
    """A function of one tensor as TensorFlow's converter writes it."""
    import tensorflow as tf

    module = tf.Module()
    module.serve = tf.function(function, input_signature=[tf.TensorSpec(shape, tf.float32)])
    return bytes(
        tf.lite.TFLiteConverter.from_concrete_functions([module.serve.get_concrete_function()], module).convert()
    )


def samples(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def answers(interpreter: Any, given: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    taken, made = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    found = []
    for x in given:
        interpreter.resize_tensor_input(taken, x.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(taken, x)
        interpreter.invoke()
        found.append(interpreter.get_tensor(made))
    return found


def of_tensorflow(flat: bytes, given: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    """Of one interpreter, with XNNPACK."""
    import tensorflow as tf

    with pytest.warns(UserWarning, match="use the LiteRT interpreter"):
        interpreter = tf.lite.Interpreter(model_content=flat)
    return answers(interpreter, given)


def of_litert(flat: bytes, given: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    """Of one interpreter, with XNNPACK."""
    from ai_edge_litert.interpreter import Interpreter

    return answers(Interpreter(model_content=flat), given)


def plainly(flat: bytes, given: Sequence[np.ndarray[Any, Any]]) -> list[Any]:
    """Of TFLite's own kernels."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return answers(Interpreter(model_content=flat, experimental_op_resolver_type=plain), given)


def asked(flat: bytes) -> int:
    return Counter(each.name for each in main_operators(flat))["SHAPE"]


def centred(x: Any) -> Any:
    import tensorflow as tf

    mean = tf.sigmoid(tf.reduce_sum(tf.sin(x), 1, keepdims=True)) * 2.5
    return tf.cos(tf.sin(x) - mean)


def nearest(x: Any) -> Any:
    """Of known axes the last alone."""
    import tensorflow as tf

    return tf.cos(tf.maximum(tf.reduce_max(tf.sin(x), 0, keepdims=True) * 0.5, tf.sin(x) * 2.0))


def of_fewer_axes(x: Any) -> Any:
    import tensorflow as tf

    return tf.tanh(tf.sigmoid(tf.reduce_sum(x, 0)) * tf.sin(x))


@pytest.mark.parametrize("function", [centred, nearest, of_fewer_axes], ids=lambda each: each.__name__)
def test_answers_do_not_depend_on_the_sizes_before(function: Callable[[Any], Any]) -> None:
    flat = file_of(function, None, None, 16)
    given = [samples(*sizes, 16) for sizes in (*SIZES, *[(count, rows) for rows, count in SIZES], (2, 9))]
    made = without_shared_places(flat)
    wanted = plainly(flat, given)
    for got in (plainly(made, given), of_litert(made, given), of_tensorflow(made, given)):
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_the_file_as_it_was_answers_wrongly_in_tensorflow_alone() -> None:
    """When it does not any more, TensorFlow's XNNPACK is mended."""
    flat = file_of(centred, None, None, 16)
    given = [samples(*sizes, 16) for sizes in SIZES]
    wanted = plainly(flat, given)
    assert np.abs(of_tensorflow(flat, given)[-1] - wanted[-1]).max() > 0.1
    assert np.abs(of_litert(flat, given)[-1] - wanted[-1]).max() < 1e-5


def converted(folder: Path, monkeypatch: pytest.MonkeyPatch, rows: Bounds = ANY_SIZE) -> bytes:
    """The file that a step makes of x less what is like its mean over rows."""
    monkeypatch.chdir(folder)  # a step lowers into it
    graph = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[batch, rows, 16] x) => (float[batch, rows, 16] y)
        <int64[1] along = {1}>
        { a = Sin (x)
          sum = ReduceSum (a, along)
          mean = Sigmoid (sum)
          b = Sub (a, mean)
          y = Cos (b) }"""
    (folder / "onnx").mkdir()
    onnx.save(onnx.parser.parse_model(graph), folder / "onnx" / "model.onnx")
    x = TensorSpec("x", "float32", ("batch", "rows", 16), (("rows", rows),))
    y = TensorSpec("y", "float32", ("batch", "rows", 16))
    write_artifact(folder / "onnx", Target(Format.ONNX), Signature((x,), (y,)))
    tflite.tflite_fp32(Job({"source": folder / "onnx"}, folder))
    return (folder / "model.tflite").read_bytes()


def test_a_step_writes_such_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = converted(tmp_path, monkeypatch)
    given = [samples(*sizes, 16) for sizes in SIZES]
    for got, wanted in zip(of_tensorflow(flat, given), plainly(flat, given), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def experts(x: Any) -> Any:
    """Of each only the rows that are its own, which may be none."""
    import tensorflow as tf

    made = tf.zeros_like(x)
    for column in (0, 1):
        own = tf.where(x[:, column] > 0)
        rows = tf.gather_nd(x, own)
        gate = tf.sigmoid(tf.reduce_sum(tf.sin(rows), 1, keepdims=True))
        made += tf.scatter_nd(own, tf.cos(gate * tf.sin(tf.sin(rows) * 2.0)), tf.shape(x, tf.int64))
    return made


def test_sizes_that_show_as_the_model_runs_may_be_none() -> None:
    """Without it the process ends here, where memory is planned while an expert has no row."""
    flat = file_of(experts, None, 16)
    made = without_shared_places(flat)
    assert asked(made) == asked(flat) + 2
    given = []
    for of_first, of_second in ((30, 2), (0, 20), (10, 3)):
        x = samples(40, 16)
        x[:, :2] = -1
        x[:of_first, 0] = x[40 - of_second :, 1] = 1
        given.append(x)
    for got, wanted in zip(of_tensorflow(made, given), plainly(flat, given), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_an_axis_that_may_be_empty_makes_known_ones_count() -> None:
    import tensorflow as tf

    flat = file_of(lambda x: tf.cos(tf.sin(x) - tf.reduce_max(tf.sin(x), -1, keepdims=True)), None, None, 16)
    assert without_shared_places(flat) is flat
    assert asked(without_shared_places(flat, may_be_empty=True)) == asked(flat) + 1


@pytest.mark.parametrize("least", [0, 1])
def test_a_step_knows_whether_an_axis_may_be_empty(least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def noted(flat: bytes, may_be_empty: bool) -> bytes:
        seen.append(may_be_empty)
        return flat

    monkeypatch.setattr(tflite, "without_shared_places", noted)
    converted(tmp_path, monkeypatch, Bounds(least))
    assert seen == [least == 0]


def test_bodies_of_loops_are_looked_through(tmp_path: Path) -> None:
    import tensorflow as tf

    def steps(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, centred(y)), (0, x))[1]

    flat = file_of(steps, None, None, 16)
    made = without_shared_places(flat)
    (tmp_path / "model.tflite").write_bytes(made)
    assert count_operators(tmp_path / "model.tflite")["SHAPE"] == 1
    given = [samples(*sizes, 16) for sizes in SIZES]
    for got, wanted in zip(of_tensorflow(made, given), plainly(flat, given), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-4)


@pytest.mark.parametrize("shape", [(None, 5, 16), (3, 5, 16), (5, None, 16)], ids=str)
def test_a_file_of_one_free_size_is_left_alone(shape: tuple[int | None, ...]) -> None:
    flat = file_of(centred, *shape)
    assert without_shared_places(flat) is flat


def test_what_cannot_be_written_onto_its_input_is_left_alone() -> None:
    import tensorflow as tf

    def alike(x: Any) -> Any:
        return tf.sin(x) * tf.cos(x)

    def of_known_axes(x: Any) -> Any:  # they are never of one size
        return tf.sin(x) - tf.sigmoid(tf.reduce_sum(tf.sin(x), -1, keepdims=True))

    def read_twice(x: Any) -> Any:
        mean = tf.sigmoid(tf.reduce_sum(x, 1, keepdims=True))
        return (tf.sin(x) - mean) * mean

    def of_constants(x: Any) -> Any:
        return tf.sin(x) * np.float32(2) + np.arange(16, dtype=np.float32)

    for function in (alike, of_known_axes, read_twice, of_constants):
        flat = file_of(function, None, None, 16)
        assert without_shared_places(flat) is flat
