"""From Keras, SavedModel and TFLite: names, order, layout, dynamic axes and values come through to ONNX."""

from __future__ import annotations

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from transload.converters.intake.take_in import take_in_keras, take_in_saved_model, take_in_tflite
from transload.converters.to_onnx.onnx_from_tensorflow import onnx_from_saved_model, onnx_from_tflite
from transload.converters.to_saved_model.saved_model_from_keras import saved_model_from_keras
from transload.converters.to_tflite.tflite_signature import inputs_and_outputs, model_of, with_unique_names
from transload.models.artifact import read_artifact, write_artifact
from transload.models.errors import BadRequest, Refused
from transload.models.formats import Format, Target
from transload.models.job import Job
from transload.models.probes.random_inputs import sample_tensors
from transload.models.signature import Array, Signature, TensorSpec, parse_input
from transload.models.store import digest_of
from transload.models.tensorflow_names import default_signature, plain_names
from transload.serving.runtimes.keras_session import open_session as open_keras
from transload.serving.runtimes.onnxruntime_session import open_session as open_onnx
from transload.serving.runtimes.tensorflow_session import open_session as open_tensorflow
from transload.serving.runtimes.tflite_session import open_session as open_tflite

# Keras 3.15 asks h5py for weights in a way that numpy 2.4 deprecates.
of_keras = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

Work = Callable[[Job], Mapping[str, Any]]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has one: steps leave files in it."""
    monkeypatch.chdir(tmp_path)


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


def taken(entry: Work, path: Path, out: Path, *inputs: TensorSpec) -> Path:
    out.mkdir()
    options = {"path": str(path), "sha256": digest_of(path), "inputs": [spec.to_json() for spec in inputs]}
    entry(Job({}, out, options))
    return out


def step(entry: Work, source: Path, out: Path) -> Path:
    out.mkdir()
    entry(Job({"source": source}, out))
    return out


def agrees(session: Any, reference: Any, least_db: float = 100) -> None:
    """At batches 1, 2 and 5, in names, order, shapes, dtypes and values."""
    specs = reference.signature.inputs
    for batch in (1, 2, 5):
        axes = {axis: batch if axis == "batch" else batch + 5 for spec in specs for axis in spec.dynamic_axes.values()}
        feeds = sample_tensors(specs, axes, batch)
        want, got = reference.run(feeds), session.run(feeds)
        assert list(got) == list(want)
        for name, value in want.items():
            assert (got[name].shape, got[name].dtype) == (value.shape, value.dtype)
            noise = np.linalg.norm(got[name].astype(np.float64) - value)
            assert 20 * np.log10(np.linalg.norm(value.astype(np.float64)) / max(noise, 1e-30)) > least_db, name


@of_keras
@pytest.mark.parametrize("net", NETS)
def test_keras_comes_through_to_onnx(net: Callable[[Any], Any], tmp_path: Path) -> None:
    import keras

    keras.utils.set_random_seed(3)
    model = net(keras)
    rng = np.random.default_rng(0)
    # Every weight counts, the statistics of normalisations too.
    model.set_weights([(rng.random(each.shape) * 0.8 + 0.1).astype(each.dtype) for each in model.get_weights()])
    model.save(tmp_path / "m.keras")
    given = taken(take_in_keras, tmp_path / "m.keras", tmp_path / "keras")
    lowered = step(saved_model_from_keras, given, tmp_path / "saved-model")
    made = step(onnx_from_saved_model, lowered, tmp_path / "onnx")
    reference = open_keras(given, "cpu", 1)
    agrees(open_onnx(made, "cpu", 1), reference)
    graph = onnx.load(made / "model.onnx").graph
    assert [each.name for each in graph.input] == [spec.name for spec in reference.signature.inputs]
    assert not any("transload" in name for node in graph.node for name in (*node.input, *node.output))
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


@of_keras
def test_a_layer_that_needs_sizes_is_called_with_those_that_are_given(tmp_path: Path) -> None:
    import keras

    x = keras.Input((None, None, 3), name="image")
    keras.Model(x, keras.layers.UpSampling2D(interpolation="bilinear")(x)).save(tmp_path / "m.keras")
    with pytest.raises(Refused) as caught:
        step(saved_model_from_keras, taken(take_in_keras, tmp_path / "m.keras", tmp_path / "open"), tmp_path / "none")
    assert caught.value.what.startswith(
        "Keras has no graph of this model where image_1, image_2 may be of any size: UpSampling2D.call(): Using a symb"
    )
    assert caught.value.fix == "give them sizes, as in --input image=float32[batch,SIZE,SIZE,3]"
    given = taken(take_in_keras, tmp_path / "m.keras", tmp_path / "keras", parse_input("image=float32[batch,6,5,3]"))
    agrees(
        open_tensorflow(step(saved_model_from_keras, given, tmp_path / "made"), "cpu", 1), open_keras(given, "cpu", 1)
    )


@of_keras
def test_a_layer_at_each_step_is_called_as_often_as_there_are_steps(tmp_path: Path) -> None:
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
    given = taken(take_in_keras, tmp_path / "m.keras", tmp_path / "keras", *axes)
    reference = open_keras(given, "cpu", 1)
    agrees(open_tensorflow(step(saved_model_from_keras, given, tmp_path / "made"), "cpu", 1), reference)
    feeds = sample_tensors(reference.signature.inputs, {"batch": 2, "n": 6, "t": 3, "w": 4}, 2)
    for got, want in zip(reference.run(feeds).values(), model([feeds["ids"], feeds["rows"]]), strict=True):
        np.testing.assert_array_equal(got, want)


@of_keras
def test_keras_says_its_names_and_axes(tmp_path: Path) -> None:
    import keras

    two(keras).save(tmp_path / "m.keras")
    signature = read_artifact(taken(take_in_keras, tmp_path / "m.keras", tmp_path / "out")).signature
    assert [str(spec) for spec in signature.inputs] == ["z_left=float32[batch,6]", "a_right=float32[batch,5,4]"]
    assert [str(spec) for spec in signature.outputs] == ["alpha=float32[batch,2]", "zeta=float32[batch,3]"]


def saved(folder: Path, compute: Callable[..., Any], *specs: Any) -> Path:
    """A SavedModel of a function."""
    import tensorflow as tf

    module = tf.Module()
    module.serve = tf.function(compute, input_signature=list(specs))
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})
    return folder


def tflite(folder: Path, path: Path) -> Path:
    import tensorflow as tf

    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(folder)).convert())
    return path


def several(z: Any, a: Any) -> dict[str, Any]:
    import tensorflow as tf

    found = {f"o_{at}": z * at + tf.reduce_sum(a, 1, keepdims=True) for at in (2, 10, 1)}
    return {**found, "as_it_came": tf.identity(z), "fixed": tf.constant([1.0, 2.0])}


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Inputs that are not in the order of the alphabet; an output that is an input, and one that nothing changes."""
    import tensorflow as tf

    return saved(tmp_path / "sm", several, tf.TensorSpec([None, 3], name="z"), tf.TensorSpec([None, 4], name="a"))


def test_a_saved_model_keeps_the_order_of_its_inputs_and_counts_its_outputs(odd: Path, tmp_path: Path) -> None:
    signature = read_artifact(taken(take_in_saved_model, odd, tmp_path / "given")).signature
    assert [str(spec) for spec in signature.inputs] == ["z=float32[batch,3]", "a=float32[batch,4]"]
    assert [spec.name for spec in signature.outputs] == ["as_it_came", "fixed", "o_1", "o_2", "o_10"]


@of_keras
@pytest.mark.parametrize("form", ["saved-model", "tflite", "keras"])
def test_inputs_that_may_be_of_two_batches_are_asked_for(form: str, tmp_path: Path) -> None:
    import keras
    import tensorflow as tf

    x, e = (tf.TensorSpec([None, size], name=name) for name, size in (("x", 4), ("e", 2)))
    apart = saved(tmp_path / "sm", lambda x, e: {"y": tf.reduce_sum(x, 1), "z": tf.reduce_sum(e, 1)}, x, e)
    entry, path = take_in_saved_model, apart
    if form == "tflite":
        entry, path = take_in_tflite, tflite(apart, tmp_path / "m.tflite")
    if form == "keras":
        inputs = [keras.Input((4,), name="x"), keras.Input((2,), name="e")]
        entry, path = take_in_keras, tmp_path / "m.keras"
        keras.Model(inputs, [keras.ops.sum(each, 1) for each in inputs]).save(path)
    with pytest.raises(BadRequest, match=r"answers to 6 samples in [xe] and 4 in the others: whether"):
        taken(entry, path, tmp_path / "guessed")
    given = taken(entry, path, tmp_path / "given", parse_input("x=float32[n,4]"), parse_input("e=float32[k,2]"))
    assert {spec.shape[0] for spec in read_artifact(given).signature.inputs} == {"n", "k"}


def test_names_that_are_no_identifiers_are_kept(tmp_path: Path) -> None:
    import tensorflow as tf

    specs = [tf.TensorSpec([None, size], name=name) for name, size in (("input-1", 4), ("b-2", 2))]
    folder = saved(tmp_path / "sm", lambda x, e: {"y": x + tf.reduce_sum(e, 1, keepdims=True)}, *specs)
    given = taken(take_in_saved_model, folder, tmp_path / "given")
    agrees(open_onnx(step(onnx_from_saved_model, given, tmp_path / "onnx"), "cpu", 1), open_tensorflow(given, "cpu", 1))


@pytest.mark.parametrize("form", ["saved-model", "tflite"])
def test_inputs_that_are_outputs_and_constants_come_through(form: str, odd: Path, tmp_path: Path) -> None:
    if form == "tflite":
        given = taken(take_in_tflite, tflite(odd, tmp_path / "m.tflite"), tmp_path / "given")
    else:
        given = taken(take_in_saved_model, odd, tmp_path / "given")
    entry = onnx_from_tflite if form == "tflite" else onnx_from_saved_model
    session = open_onnx(step(entry, given, tmp_path / "onnx"), "cpu", 1)
    z, a = np.float32([[1, 2, 3], [4, 5, 6]]), np.float32([[1, 1, 1, 1], [2, 2, 2, 2]])
    got = session.run({"z": z, "a": a})
    total = a.sum(1, keepdims=True)
    want: dict[str, Array] = {f"o_{at}": z * at + total for at in (1, 2, 10)}
    want |= {"as_it_came": z, "fixed": np.float32([1, 2])}
    assert list(got) == [spec.name for spec in session.signature.outputs]
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value)


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
def test_operators_that_tf2onnx_lacks(name: str, tmp_path: Path) -> None:
    import tensorflow as tf

    folder = saved(tmp_path / "sm", lambda x: {"y": OPERATORS[name](tf, x)}, tf.TensorSpec([None, 5], name="x"))
    made = step(onnx_from_saved_model, taken(take_in_saved_model, folder, tmp_path / "given"), tmp_path / "onnx")
    session = open_onnx(made, "cpu", 1)
    for batch in (1, 3):
        x = np.random.default_rng(0).standard_normal((batch, 5)).astype(np.float32)
        np.testing.assert_allclose(session.run({"x": x})["y"], OPERATORS[name](tf, x), rtol=1e-5, atol=1e-6)


def test_a_dilated_convolution_is_one_where_the_crop_is_what_was_padded_for_it(tmp_path: Path) -> None:
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
        path = saved(own / "sm", function, tf.TensorSpec([None, None, 5, 2], name="x"))
        if form == "tflite":
            made = step(onnx_from_tflite, taken(take_in_tflite, tflite(path, own / "m"), own / "given"), own / "onnx")
        else:
            made = step(onnx_from_saved_model, taken(take_in_saved_model, path, own / "given"), own / "onnx")
        used = {node.op_type for node in onnx.load(made / "model.onnx").graph.node}
        assert ("DepthToSpace" in used) == (function is otherwise)
        session = open_onnx(made, "cpu", 1)
        for rows in (5, 8):
            x = np.random.default_rng(rows).standard_normal((2, rows, 5, 2)).astype(np.float32)
            for name, value in function(tf.constant(x)).items():
                np.testing.assert_allclose(session.run({"x": x})[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("form", ["saved-model", "tflite"])
def test_a_transposed_convolution_is_as_large_as_it_says(form: str, tmp_path: Path) -> None:
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

    path = saved(tmp_path / "sm", compute, tf.TensorSpec([None, 5, 5, 2], name="x"))
    if form == "tflite":
        given = taken(take_in_tflite, tflite(path, tmp_path / "m.tflite"), tmp_path / "given")
        made, reference = step(onnx_from_tflite, given, tmp_path / "onnx"), open_tflite(given, "cpu", 1)
    else:
        given = taken(take_in_saved_model, path, tmp_path / "given")
        made, reference = step(onnx_from_saved_model, given, tmp_path / "onnx"), open_tensorflow(given, "cpu", 1)
    agrees(open_onnx(made, "cpu", 1), reference)


@pytest.mark.parametrize("form", ["saved-model", "tflite"])
def test_floors_of_quotients_and_what_is_left_are_the_runtimes_own(form: str, tmp_path: Path) -> None:
    """Where a quotient is rounded up to a whole number they differ between runtimes: LiteRT divides in double."""
    import tensorflow as tf

    def compute(x: Any, y: Any) -> dict[str, Any]:
        return {"mod": x % y, "div": x // y}

    folder = saved(tmp_path / "sm", compute, *(tf.TensorSpec([None, 6], name=name) for name in "xy"))
    if form == "tflite":
        given = taken(take_in_tflite, tflite(folder, tmp_path / "m.tflite"), tmp_path / "given")
        made, reference = step(onnx_from_tflite, given, tmp_path / "onnx"), open_tflite(given, "cpu", 1)
    else:
        given = taken(take_in_saved_model, folder, tmp_path / "given")
        made, reference = step(onnx_from_saved_model, given, tmp_path / "onnx"), open_tensorflow(given, "cpu", 1)
    x = np.float32([[-1.5, 1.5, 0.6, 1e4, -0.0, 7], [1.2, -0.3, 1e-30, np.inf, -6, np.nan]])
    y = np.float32([[-0.1, 0.3, 0.2, -3, 2, -7], [-0.3, 0.1, 1e-31, 2, np.inf, 1]])
    want, got = reference.run({"x": x, "y": y}), open_onnx(made, "cpu", 1).run({"x": x, "y": y})
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, name)


def test_small_numbers_keep_their_digits(tmp_path: Path) -> None:
    import tensorflow as tf

    spec = tf.TensorSpec([None], name="x")
    folder = saved(tmp_path / "sm", lambda x: {"e": tf.math.expm1(x), "l": tf.math.log1p(x)}, spec)
    made = step(onnx_from_saved_model, taken(take_in_saved_model, folder, tmp_path / "given"), tmp_path / "onnx")
    x = np.float32([1e-30, 3e-8, -1.7e-6, 0.003, -0.49, 0.51, 0, -1, 90, np.inf, -np.inf, -2])
    got = open_onnx(made, "cpu", 1).run({"x": x})
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got["e"], np.expm1(x), rtol=1e-6)
        np.testing.assert_allclose(got["l"], np.log1p(x), rtol=1e-6)


def kernels(model: Any) -> set[str]:
    from ai_edge_litert.schema_py_generated import BuiltinOperator

    codes = {model.OperatorCodes(at).BuiltinCode() for at in range(model.OperatorCodesLength())}
    return {name for name, code in vars(BuiltinOperator).items() if code in codes}


@pytest.mark.parametrize("name", OF_TFLITE)
def test_operators_of_tflite_that_tf2onnx_lacks(name: str, tmp_path: Path) -> None:
    import tensorflow as tf

    folder = saved(tmp_path / "sm", lambda x: {"y": OF_TFLITE[name](tf, x)}, tf.TensorSpec([None, 5], name="x"))
    given = taken(take_in_tflite, tflite(folder, tmp_path / "m.tflite"), tmp_path / "given")
    codes = model_of((given / "model.tflite").read_bytes())
    assert name.split(maxsplit=1)[0] in kernels(codes), "the operator that this is about"
    agrees(open_onnx(step(onnx_from_tflite, given, tmp_path / "onnx"), "cpu", 1), open_tflite(given, "cpu", 1))


def test_the_rectifier_that_ends_at_one(tmp_path: Path) -> None:
    """TensorFlow's converter spells it in two operators; other tools write it."""
    import tensorflow as tf
    from ai_edge_litert import schema_py_generated as schema

    folder = saved(tmp_path / "sm", lambda x: {"y": clipped(x, -1, 1)}, tf.TensorSpec([None, 5], name="x"))

    def change(model: Any) -> None:
        (code,) = model.operatorCodes
        code.builtinCode, code.deprecatedBuiltinCode = schema.BuiltinOperator.RELU_0_TO_1, 127

    edited(tflite(folder, tmp_path / "m.tflite"), change)
    given = taken(take_in_tflite, tmp_path / "m.tflite", tmp_path / "given")
    session = open_onnx(step(onnx_from_tflite, given, tmp_path / "onnx"), "cpu", 1)
    x = np.float32([[-2, -0.5, 0.5, 1, 2]])
    np.testing.assert_array_equal(session.run({"x": x})["y"], np.clip(x, 0, 1))
    agrees(session, open_tflite(given, "cpu", 1))


def edited(path: Path, change: Callable[[Any], None]) -> None:
    """A TFLite file with something else in it."""
    from ai_edge_litert import schema_py_generated as schema
    from flatbuffers import Builder

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
    change(model)
    builder = Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))


def test_a_function_that_is_to_be_compiled_is_written_out(tmp_path: Path) -> None:
    """Keras's grouped convolutions are."""
    import tensorflow as tf

    grouped = tf.function(
        lambda x: tf.nn.conv2d(x, tf.reshape(tf.range(24.0), [1, 1, 2, 12]), 1, "VALID"), jit_compile=True
    )
    spec = tf.TensorSpec([None, 3, 2, 6], name="x")
    folder = saved(tmp_path / "sm", lambda x: {"y": grouped(x)}, spec)
    made = step(onnx_from_saved_model, taken(take_in_saved_model, folder, tmp_path / "given"), tmp_path / "onnx")
    x = np.random.default_rng(0).standard_normal((2, 3, 2, 6)).astype(np.float32)
    parts = [x[..., 2 * at : 2 * at + 2] @ np.arange(24.0).reshape(2, 12)[:, 4 * at : 4 * at + 4] for at in range(3)]
    np.testing.assert_allclose(
        open_onnx(made, "cpu", 1).run({"x": x})["y"], np.concatenate(parts, -1), rtol=1e-5, atol=1e-5
    )


def test_an_operator_that_is_left_over_is_refused_by_name(tmp_path: Path) -> None:
    import tensorflow as tf

    folder = saved(tmp_path / "sm", lambda x: {"y": tf.math.lgamma(x)}, tf.TensorSpec([None, 5], name="x"))
    given = taken(take_in_saved_model, folder, tmp_path / "given")
    with pytest.raises(Refused, match="tf2onnx has no ONNX for Lgamma"):
        step(onnx_from_saved_model, given, tmp_path / "onnx")


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
def test_what_is_refused_is_named(name: str, tmp_path: Path) -> None:
    """Of tf2onnx's own errors only its log says at which operator."""
    import tensorflow as tf

    compute, what = REFUSED[name]
    folder = saved(tmp_path / "sm", lambda x: {"y": compute(tf, x)}, tf.TensorSpec([None, 3], name="x"))
    given = taken(take_in_saved_model, folder, tmp_path / "given")
    with pytest.raises(Refused) as caught:
        step(onnx_from_saved_model, given, tmp_path / "onnx")
    assert caught.value.what.startswith(what)


def test_an_input_and_an_output_of_one_name_are_refused(tmp_path: Path) -> None:
    import tensorflow as tf

    folder = saved(tmp_path / "sm", lambda x: {"x": x + 1}, tf.TensorSpec([None, 5], name="x"))
    given = taken(take_in_saved_model, folder, tmp_path / "given")
    with pytest.raises(Refused, match="an input and an output are both called x"):
        step(onnx_from_saved_model, given, tmp_path / "onnx")


def test_a_record_of_another_model_is_refused(odd: Path, tmp_path: Path) -> None:
    given = taken(take_in_saved_model, odd, tmp_path / "given")
    x = TensorSpec("x", "float32", ("batch", 3))
    write_artifact(given, Target(Format.SAVED_MODEL), Signature((x,), (x,)))
    with pytest.raises(Refused, match="the model's inputs are"):
        step(onnx_from_saved_model, given, tmp_path / "onnx")


def test_a_tflite_file_is_called_within_the_bounds_of_its_axes(tmp_path: Path) -> None:
    import tensorflow as tf

    spec = tf.TensorSpec([None, None, 3], name="x")
    folder = saved(tmp_path / "sm", lambda x: {"y": tf.concat([tf.slice(x, [0, 10, 0], [-1, 4, -1]), x], 1)}, spec)
    bounded = parse_input("x=float32[batch,n=20..40,3]")
    given = taken(take_in_tflite, tflite(folder, tmp_path / "m.tflite"), tmp_path / "given", bounded)
    assert [str(spec) for spec in read_artifact(given).signature.outputs] == ["y=float32[batch,y_1,3]"]


def test_what_litert_quantises_while_it_runs_is_refused(tmp_path: Path) -> None:
    import tensorflow as tf

    weights = tf.constant(np.random.default_rng(0).normal(size=(40, 60)), tf.float32)
    folder = saved(tmp_path / "sm", lambda x: {"y": tf.matmul(x, weights)}, tf.TensorSpec([None, 40], name="x"))
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    (tmp_path / "m.tflite").write_bytes(converter.convert())
    given = taken(take_in_tflite, tmp_path / "m.tflite", tmp_path / "given")
    with pytest.raises(Refused, match="LiteRT rounds what FULLY_CONNECTED of this file take to 8 bits"):
        step(onnx_from_tflite, given, tmp_path / "onnx")


def test_a_table_is_refused_by_what_it_is(tmp_path: Path) -> None:
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
        step(onnx_from_saved_model, tmp_path / "given", tmp_path / "onnx")


def test_a_tflite_file_without_a_signature_is_called_by_its_tensors(odd: Path, tmp_path: Path) -> None:
    def change(model: Any) -> None:
        model.signatureDefs = []

    edited(tflite(odd, tmp_path / "m.tflite"), change)
    given = taken(take_in_tflite, tmp_path / "m.tflite", tmp_path / "given")
    assert {spec.name for spec in read_artifact(given).signature.inputs} == {"z", "a"}
    agrees(open_onnx(step(onnx_from_tflite, given, tmp_path / "onnx"), "cpu", 1), open_tflite(given, "cpu", 1))


def test_tensors_of_one_name_are_told_apart(odd: Path, tmp_path: Path) -> None:
    path = tflite(odd, tmp_path / "m.tflite")
    flat = path.read_bytes()
    assert with_unique_names(flat) is flat, "nothing had to be changed"

    def change(model: Any) -> None:
        for tensor in model.subgraphs[0].tensors:
            tensor.name = b"same"

    edited(path, change)
    given = taken(take_in_tflite, path, tmp_path / "given")
    inputs, _ = inputs_and_outputs(model_of(with_unique_names((given / "model.tflite").read_bytes())))
    assert len({each.tensor for each in inputs}) == 2
    agrees(open_onnx(step(onnx_from_tflite, given, tmp_path / "onnx"), "cpu", 1), open_tflite(given, "cpu", 1))


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
