"""SavedModel and TFLite come through to ONNX: names, order, layout, dynamic axes and values."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transload.converters.readers.keras.keras_reader import import_keras
from transload.converters.readers.saved_model.saved_model_reader import import_saved_model
from transload.converters.readers.tflite.tflite_reader import import_tflite
from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model, onnx_from_tflite
from transload.converters.to_tflite.flatbuffer import inputs_and_outputs, model_of, with_unique_names
from transload.models.artifact import read_artifact, write_artifact
from transload.models.errors import BadRequest, Refused
from transload.models.formats import Format, Target
from transload.models.signature import Array, Signature, TensorSpec, parse_input
from transload.models.tensorflow_names import default_signature, plain_names
from transload.serving.runtimes.onnxruntime_session import open_session as open_onnx
from transload.serving.runtimes.tensorflow_session import open_session as open_tensorflow
from transload.serving.runtimes.tflite_session import open_session as open_tflite

# Keras 3.15 asks h5py for weights in a way that numpy 2.4 deprecates.
of_keras = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def several(z: Any, a: Any) -> dict[str, Any]:
    import tensorflow as tf

    found = {f"o_{at}": z * at + tf.reduce_sum(a, 1, keepdims=True) for at in (2, 10, 1)}
    return {**found, "as_it_came": tf.identity(z), "fixed": tf.constant([1.0, 2.0])}


@pytest.fixture
def odd(tmp_path: Path, tf_models: Any) -> Path:
    """Inputs that are not in the order of the alphabet; an output that is an input, and one that nothing changes."""
    import tensorflow as tf

    return tf_models.save(
        tmp_path / "sm", several, tf.TensorSpec([None, 3], name="z"), tf.TensorSpec([None, 4], name="a")
    )


def test_a_saved_model_keeps_the_order_of_its_inputs_and_counts_its_outputs(
    odd: Path, tmp_path: Path, tf_models: Any
) -> None:
    signature = read_artifact(tf_models.import_file(import_saved_model, odd, tmp_path / "given")).signature
    assert [str(spec) for spec in signature.inputs] == ["z=float32[batch,3]", "a=float32[batch,4]"]
    assert [spec.name for spec in signature.outputs] == ["as_it_came", "fixed", "o_1", "o_2", "o_10"]


@of_keras
@pytest.mark.parametrize("form", ["saved-model", "tflite", "keras"])
def test_inputs_that_may_be_of_two_batches_are_asked_for(form: str, tmp_path: Path, tf_models: Any) -> None:
    import keras
    import tensorflow as tf

    x, e = (tf.TensorSpec([None, size], name=name) for name, size in (("x", 4), ("e", 2)))
    apart = tf_models.save(tmp_path / "sm", lambda x, e: {"y": tf.reduce_sum(x, 1), "z": tf.reduce_sum(e, 1)}, x, e)
    entry, path = import_saved_model, apart
    if form == "tflite":
        entry, path = import_tflite, tf_models.to_tflite(apart, tmp_path / "m.tflite")
    if form == "keras":
        inputs = [keras.Input((4,), name="x"), keras.Input((2,), name="e")]
        entry, path = import_keras, tmp_path / "m.keras"
        keras.Model(inputs, [keras.ops.sum(each, 1) for each in inputs]).save(path)
    with pytest.raises(BadRequest, match=r"answers to 6 samples in [xe] and 4 in the others: whether"):
        tf_models.import_file(entry, path, tmp_path / "guessed")
    given = tf_models.import_file(
        entry, path, tmp_path / "given", parse_input("x=float32[n,4]"), parse_input("e=float32[k,2]")
    )
    assert {spec.shape[0] for spec in read_artifact(given).signature.inputs} == {"n", "k"}


def test_names_that_are_no_identifiers_are_kept(tmp_path: Path, tf_models: Any) -> None:
    import tensorflow as tf

    specs = [tf.TensorSpec([None, size], name=name) for name, size in (("input-1", 4), ("b-2", 2))]
    folder = tf_models.save(tmp_path / "sm", lambda x, e: {"y": x + tf.reduce_sum(e, 1, keepdims=True)}, *specs)
    given = tf_models.import_file(import_saved_model, folder, tmp_path / "given")
    tf_models.assert_agrees(
        open_onnx(tf_models.convert(onnx_from_saved_model, given, tmp_path / "onnx"), "cpu", 1),
        open_tensorflow(given, "cpu", 1),
    )


@pytest.mark.parametrize("form", ["saved-model", "tflite"])
def test_inputs_that_are_outputs_and_constants_come_through(
    form: str, odd: Path, tmp_path: Path, tf_models: Any
) -> None:
    if form == "tflite":
        given = tf_models.import_file(
            import_tflite, tf_models.to_tflite(odd, tmp_path / "m.tflite"), tmp_path / "given"
        )
    else:
        given = tf_models.import_file(import_saved_model, odd, tmp_path / "given")
    entry = onnx_from_tflite if form == "tflite" else onnx_from_saved_model
    session = open_onnx(tf_models.convert(entry, given, tmp_path / "onnx"), "cpu", 1)
    z, a = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array([[1, 1, 1, 1], [2, 2, 2, 2]], np.float32)
    got = session.run({"z": z, "a": a})
    total = a.sum(1, keepdims=True)
    want: dict[str, Array] = {f"o_{at}": z * at + total for at in (1, 2, 10)}
    want |= {"as_it_came": z, "fixed": np.array([1, 2], np.float32)}
    assert list(got) == [spec.name for spec in session.signature.outputs]
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value)


def test_a_function_that_is_to_be_compiled_is_written_out(tmp_path: Path, tf_models: Any) -> None:
    """Keras's grouped convolutions are."""
    import tensorflow as tf

    grouped = tf.function(
        lambda x: tf.nn.conv2d(x, tf.reshape(tf.range(24.0), [1, 1, 2, 12]), 1, "VALID"), jit_compile=True
    )
    spec = tf.TensorSpec([None, 3, 2, 6], name="x")
    folder = tf_models.save(tmp_path / "sm", lambda x: {"y": grouped(x)}, spec)
    made = tf_models.convert(
        onnx_from_saved_model, tf_models.import_file(import_saved_model, folder, tmp_path / "given"), tmp_path / "onnx"
    )
    x = np.random.default_rng(0).standard_normal((2, 3, 2, 6)).astype(np.float32)
    parts = [x[..., 2 * at : 2 * at + 2] @ np.arange(24.0).reshape(2, 12)[:, 4 * at : 4 * at + 4] for at in range(3)]
    np.testing.assert_allclose(
        open_onnx(made, "cpu", 1).run({"x": x})["y"], np.concatenate(parts, -1), rtol=1e-5, atol=1e-5
    )


def test_an_operator_that_is_left_over_is_refused_by_name(tmp_path: Path, tf_models: Any) -> None:
    import tensorflow as tf

    folder = tf_models.save(tmp_path / "sm", lambda x: {"y": tf.math.lgamma(x)}, tf.TensorSpec([None, 5], name="x"))
    given = tf_models.import_file(import_saved_model, folder, tmp_path / "given")
    with pytest.raises(Refused, match="tf2onnx has no ONNX for Lgamma"):
        tf_models.convert(onnx_from_saved_model, given, tmp_path / "onnx")


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "what tf2onnx fails at": (
        lambda tf, x: tf.quantization.fake_quant_with_min_max_args(x, narrow_range=True),
        "tf2onnx fails at FakeQuantWithMinMaxArgs (PartitionedCall/FakeQuantWithMinMaxArgs): Unable to convert node Fa",
    ),
    "a dtype that it has not": (
        lambda tf, x: tf.cast(tf.tanh(tf.cast(x, tf.bfloat16)), tf.float32),
        "the model computes in bfloat16 (PartitionedCall/Cast), which tf2onnx has not",
    ),
    "what is not carried here": (
        lambda tf, x: tf.cast(tf.sort(tf.cast(x, tf.uint64)), tf.float32),
        "tf2onnx fails at TopKV2 (PartitionedCall/sort/TopKV2): TopKV2 of uint64 is not carried",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named(name: str, tmp_path: Path, tf_models: Any) -> None:
    """Of tf2onnx's own errors only its log says at which operator."""
    import tensorflow as tf

    compute, what = REFUSED[name]
    folder = tf_models.save(tmp_path / "sm", lambda x: {"y": compute(tf, x)}, tf.TensorSpec([None, 3], name="x"))
    given = tf_models.import_file(import_saved_model, folder, tmp_path / "given")
    with pytest.raises(Refused) as caught:
        tf_models.convert(onnx_from_saved_model, given, tmp_path / "onnx")
    assert caught.value.what.startswith(what)


def test_an_input_and_an_output_of_one_name_are_refused(tmp_path: Path, tf_models: Any) -> None:
    import tensorflow as tf

    folder = tf_models.save(tmp_path / "sm", lambda x: {"x": x + 1}, tf.TensorSpec([None, 5], name="x"))
    given = tf_models.import_file(import_saved_model, folder, tmp_path / "given")
    with pytest.raises(Refused, match="an input and an output are both called x"):
        tf_models.convert(onnx_from_saved_model, given, tmp_path / "onnx")


def test_a_record_of_another_model_is_refused(odd: Path, tmp_path: Path, tf_models: Any) -> None:
    given = tf_models.import_file(import_saved_model, odd, tmp_path / "given")
    x = TensorSpec("x", "float32", ("batch", 3))
    write_artifact(given, Target(Format.SAVED_MODEL), Signature((x,), (x,)))
    with pytest.raises(Refused, match="the model's inputs are"):
        tf_models.convert(onnx_from_saved_model, given, tmp_path / "onnx")


def test_a_tflite_file_is_called_within_the_bounds_of_its_axes(tmp_path: Path, tf_models: Any) -> None:
    import tensorflow as tf

    spec = tf.TensorSpec([None, None, 3], name="x")
    folder = tf_models.save(
        tmp_path / "sm", lambda x: {"y": tf.concat([tf.slice(x, [0, 10, 0], [-1, 4, -1]), x], 1)}, spec
    )
    bounded = parse_input("x=float32[batch,n=20..40,3]")
    given = tf_models.import_file(
        import_tflite, tf_models.to_tflite(folder, tmp_path / "m.tflite"), tmp_path / "given", bounded
    )
    assert [str(spec) for spec in read_artifact(given).signature.outputs] == ["y=float32[batch,y_1,3]"]


def test_what_litert_quantises_while_it_runs_is_refused(tmp_path: Path, tf_models: Any) -> None:
    import tensorflow as tf

    weights = tf.constant(np.random.default_rng(0).normal(size=(40, 60)), tf.float32)
    folder = tf_models.save(
        tmp_path / "sm", lambda x: {"y": tf.matmul(x, weights)}, tf.TensorSpec([None, 40], name="x")
    )
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    (tmp_path / "m.tflite").write_bytes(converter.convert())
    given = tf_models.import_file(import_tflite, tmp_path / "m.tflite", tmp_path / "given")
    with pytest.raises(Refused, match="LiteRT rounds what FULLY_CONNECTED of this file take to 8 bits"):
        tf_models.convert(onnx_from_tflite, given, tmp_path / "onnx")


def test_a_table_is_refused_by_what_it_is(tmp_path: Path, tf_models: Any) -> None:
    import tensorflow as tf

    module = tf.Module()
    keys, values = tf.constant([1, 2], tf.int64), tf.constant([10.0, 20.0])
    module.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1.0)
    spec = tf.TensorSpec([None], tf.int64, name="x")
    module.serve = tf.function(lambda x: {"y": module.table.lookup(x)}, input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path / "sm"), signatures={"serving_default": module.serve})
    signature = Signature((parse_input("x=int64[batch]"),), (parse_input("y=float32[batch]"),))
    (tmp_path / "given").mkdir()
    (tmp_path / "sm").rename(tmp_path / "given" / "saved_model")
    write_artifact(tmp_path / "given", Target(Format.SAVED_MODEL), signature)
    with pytest.raises(Refused, match="the model keeps a table"):
        tf_models.convert(onnx_from_saved_model, tmp_path / "given", tmp_path / "onnx")


def test_a_tflite_file_without_a_signature_is_called_by_its_tensors(odd: Path, tmp_path: Path, tf_models: Any) -> None:
    def change(model: Any) -> None:
        model.signatureDefs = []

    tf_models.edit_tflite(tf_models.to_tflite(odd, tmp_path / "m.tflite"), change)
    given = tf_models.import_file(import_tflite, tmp_path / "m.tflite", tmp_path / "given")
    assert {spec.name for spec in read_artifact(given).signature.inputs} == {"z", "a"}
    tf_models.assert_agrees(
        open_onnx(tf_models.convert(onnx_from_tflite, given, tmp_path / "onnx"), "cpu", 1), open_tflite(given, "cpu", 1)
    )


def test_tensors_of_one_name_are_told_apart(odd: Path, tmp_path: Path, tf_models: Any) -> None:
    path = tf_models.to_tflite(odd, tmp_path / "m.tflite")
    flat = path.read_bytes()
    assert with_unique_names(flat) is flat, "nothing had to be changed"

    def change(model: Any) -> None:
        for tensor in model.subgraphs[0].tensors:
            tensor.name = b"same"

    tf_models.edit_tflite(path, change)
    given = tf_models.import_file(import_tflite, path, tmp_path / "given")
    inputs, _ = inputs_and_outputs(model_of(with_unique_names((given / "model.tflite").read_bytes())))
    assert len({each.tensor for each in inputs}) == 2
    tf_models.assert_agrees(
        open_onnx(tf_models.convert(onnx_from_tflite, given, tmp_path / "onnx"), "cpu", 1), open_tflite(given, "cpu", 1)
    )


def test_tensor_names_lose_what_tensorflow_added_where_they_still_differ() -> None:
    assert plain_names(["serving_default_x:0", "serving_default_y:0"]) == ["x", "y"]
    assert plain_names(["StatefulPartitionedCall:0", "StatefulPartitionedCall:1"]) == [
        "StatefulPartitionedCall:0",
        "StatefulPartitionedCall:1",
    ]
    assert plain_names(["x", "serving_default_x:0"]) == ["x", "serving_default_x:0"]


def test_the_signature_that_is_served_is_the_default_or_the_only_one() -> None:
    assert default_signature(["train", "serving_default"]) == "serving_default"
    assert default_signature(["predict"]) == "predict"
    assert default_signature(["train", "predict"]) is None
