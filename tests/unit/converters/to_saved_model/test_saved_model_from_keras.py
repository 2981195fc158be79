"""Keras models come through to SavedModel and ONNX: names, order, dynamic axes and values."""

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

from transload.converters.readers.keras.keras_reader import import_keras
from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model
from transload.converters.to_saved_model.saved_model_from_keras import saved_model_from_keras
from transload.models.artifact import read_artifact
from transload.models.errors import Refused
from transload.models.probes.random_inputs import sample_tensors
from transload.models.signature import parse_input
from transload.serving.runtimes.keras_session import open_session as open_keras
from transload.serving.runtimes.onnxruntime_session import open_session as open_onnx
from transload.serving.runtimes.tensorflow_session import open_session as open_tensorflow

# Keras 3.15 asks h5py for weights in a way that numpy 2.4 deprecates.
of_keras = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def cnn(keras: Any) -> Any:
    x = keras.Input((12, 10, 3), name="image")
    y = keras.layers.Conv2D(6, 3, padding="same", activation="relu")(x)
    y = keras.layers.BatchNormalization()(y)
    y = keras.layers.DepthwiseConv2D(3, strides=2, padding="same")(y)
    y = keras.layers.SeparableConv2D(8, 3)(y)
    return keras.Model(x, keras.layers.Dense(5, name="probs")(keras.layers.GlobalAveragePooling2D()(y)))


def gelus(keras: Any) -> Any:
    x = keras.Input((7,), name="x")
    y = keras.layers.Dense(9, activation="gelu")(x)
    return keras.Model(x, keras.ops.gelu(keras.layers.Dense(4)(y), approximate=True))


def two(keras: Any) -> Any:
    left, right = keras.Input((6,), name="z_left"), keras.Input((5, 4), name="a_right")
    seen = keras.layers.GlobalMaxPooling1D()(keras.layers.Conv1D(4, 2, padding="causal")(right))
    both = keras.layers.concatenate([keras.layers.Dense(4)(left), seen])
    outputs = {"zeta": keras.layers.Dense(3, name="d1")(both), "alpha": keras.layers.Dense(2, name="_d 2")(both)}
    return keras.Model([left, right], outputs, name="two nets")


def attention(keras: Any) -> Any:
    x = keras.Input((None, 8), name="tokens")
    y = keras.layers.LayerNormalization()(keras.layers.add([x, keras.layers.MultiHeadAttention(2, 4)(x, x)]))
    return keras.Model(x, keras.layers.Dense(2, name="out")(y))


def recurrent(keras: Any) -> Any:
    x = keras.Input((None, 5), name="rows")
    y = keras.layers.LSTM(6, return_sequences=True)(x)
    return keras.Model(x, keras.layers.Dense(3, name="out")(keras.layers.Bidirectional(keras.layers.GRU(4))(y)))


NETS = [cnn, gelus, two, attention, pytest.param(recurrent, marks=pytest.mark.slow)]


@of_keras
@pytest.mark.parametrize("net", NETS)
def test_keras_comes_through_to_onnx(net: Callable[[Any], Any], tmp_path: Path, tf_models: Any) -> None:
    import keras

    keras.utils.set_random_seed(3)
    model = net(keras)
    rng = np.random.default_rng(0)
    # Every weight counts, the statistics of normalisations too.
    model.set_weights([(rng.random(each.shape) * 0.8 + 0.1).astype(each.dtype) for each in model.get_weights()])
    model.save(tmp_path / "m.keras")
    given = tf_models.import_file(import_keras, tmp_path / "m.keras", tmp_path / "keras")
    lowered = tf_models.convert(saved_model_from_keras, given, tmp_path / "saved-model")
    made = tf_models.convert(onnx_from_saved_model, lowered, tmp_path / "onnx")
    reference = open_keras(given, "cpu", 1)
    tf_models.assert_agrees(open_onnx(made, "cpu", 1), reference)
    graph = onnx.load(made / "model.onnx").graph
    assert [each.name for each in graph.input] == [spec.name for spec in reference.signature.inputs]
    assert not any("transload" in name for node in graph.node for name in (*node.input, *node.output))
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


@of_keras
def test_a_layer_that_needs_sizes_is_called_with_those_that_are_given(tmp_path: Path, tf_models: Any) -> None:
    import keras

    x = keras.Input((None, None, 3), name="image")
    keras.Model(x, keras.layers.UpSampling2D(interpolation="bilinear")(x)).save(tmp_path / "m.keras")
    with pytest.raises(Refused) as caught:
        tf_models.convert(
            saved_model_from_keras,
            tf_models.import_file(import_keras, tmp_path / "m.keras", tmp_path / "open"),
            tmp_path / "none",
        )
    assert caught.value.what.startswith(
        "Keras has no graph of this model where image_1, image_2 may be of any size: UpSampling2D.call(): Using a symb"
    )
    assert caught.value.fix == "give them sizes, as in --input image=float32[batch,SIZE,SIZE,3]"
    given = tf_models.import_file(
        import_keras, tmp_path / "m.keras", tmp_path / "keras", parse_input("image=float32[batch,6,5,3]")
    )
    tf_models.assert_agrees(
        open_tensorflow(tf_models.convert(saved_model_from_keras, given, tmp_path / "made"), "cpu", 1),
        open_keras(given, "cpu", 1),
    )


@of_keras
def test_a_layer_at_each_step_is_called_as_often_as_there_are_steps(tmp_path: Path, tf_models: Any) -> None:
    """Keras's own graph of it takes as many steps as there are samples."""
    import keras

    ids = keras.Input((None,), dtype="int32", name="ids")
    seen = keras.layers.Embedding(9, 4, mask_zero=True)(ids)
    deep = keras.layers.TimeDistributed(keras.layers.Dense(3))(seen)
    rows = keras.Input((None, None, 2), name="rows")
    shares = keras.layers.TimeDistributed(keras.layers.Softmax())(rows, mask=rows > 0.5)
    model = keras.Model([ids, rows], [deep, shares])
    model.save(tmp_path / "m.keras")
    axes = parse_input("ids=int32[batch,n]"), parse_input("rows=float32[batch,t,w,2]")
    given = tf_models.import_file(import_keras, tmp_path / "m.keras", tmp_path / "keras", *axes)
    reference = open_keras(given, "cpu", 1)
    tf_models.assert_agrees(
        open_tensorflow(tf_models.convert(saved_model_from_keras, given, tmp_path / "made"), "cpu", 1), reference
    )
    feeds = sample_tensors(reference.signature.inputs, {"batch": 2, "n": 6, "t": 3, "w": 4}, 2)
    for got, want in zip(reference.run(feeds).values(), model([feeds["ids"], feeds["rows"]]), strict=True):
        np.testing.assert_array_equal(got, want)


@of_keras
def test_keras_says_its_names_and_axes(tmp_path: Path, tf_models: Any) -> None:
    import keras

    two(keras).save(tmp_path / "m.keras")
    signature = read_artifact(tf_models.import_file(import_keras, tmp_path / "m.keras", tmp_path / "out")).signature
    assert [str(spec) for spec in signature.inputs] == ["z_left=float32[batch,6]", "a_right=float32[batch,5,4]"]
    assert [str(spec) for spec in signature.outputs] == ["alpha=float32[batch,2]", "zeta=float32[batch,3]"]
