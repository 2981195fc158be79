"""Numbers drawn at random: their distribution, shape and dtype, and new numbers at every call."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

MANY = 20_000


def drawn(tmp_path, op_type, inputs=(), dialect="TENSORFLOW", **attributes):
    """The operator as a function of its inputs, given as (name, dtype, shape)."""
    from transload.converters.onnx_to_tf.kernels import dialects
    from transload.converters.onnx_to_tf.lower_model import lower

    node = helper.make_node(op_type, [name for name, *_ in inputs], ["y"], **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
    )  # fmt: skip
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)
    return lower(path, getattr(dialects, dialect))


def call(lowered, *arrays):
    import tensorflow as tf

    return lowered.module.serve(*map(tf.constant, arrays))["y"].numpy()


X = ("x", TensorProto.FLOAT, ["N", 3])
MANY_X = np.zeros((MANY, 3), np.float32)


@pytest.mark.parametrize(("dtype", "name"), [(None, "float32"), (10, "float16"), (11, "float64")])
@pytest.mark.parametrize("like", [False, True])
def test_normal_numbers_have_the_mean_the_scale_the_shape_and_the_dtype(tmp_path, dtype, name, like):
    given = {"mean": 3.0, "scale": 0.5, **({} if dtype is None else {"dtype": dtype})}
    if like:
        y = call(drawn(tmp_path, "RandomNormalLike", [X], **given), MANY_X)
    else:
        y = call(drawn(tmp_path, "RandomNormal", shape=[MANY, 3], **given))
    assert (y.dtype, y.shape) == (name, (MANY, 3))
    assert abs(y.astype(float).mean() - 3.0) < 0.02
    assert abs(y.astype(float).std() - 0.5) < 0.02


@pytest.mark.parametrize("like", [False, True])
def test_uniform_numbers_lie_between_the_bounds(tmp_path, like):
    if like:
        y = call(drawn(tmp_path, "RandomUniformLike", [X], low=-2.0, high=6.0), MANY_X)
    else:
        y = call(drawn(tmp_path, "RandomUniform", shape=[MANY, 3], low=-2.0, high=6.0))
    assert (y.min() >= -2, y.max() <= 6, y.shape) == (True, True, (MANY, 3))
    assert abs(y.mean() - 2) < 0.1
    assert abs(y.std() - 8 / 12**0.5) < 0.1


def test_without_bounds_numbers_lie_between_0_and_1(tmp_path):
    y = call(drawn(tmp_path, "RandomUniform", shape=[MANY]))
    assert (y.min() >= 0, y.max() < 1) == (True, True)
    assert abs(y.mean() - 0.5) < 0.02


def test_bernoulli_draws_ones_with_the_probability_of_its_input(tmp_path):
    chances = np.broadcast_to(np.array([0.0, 0.3, 1.0], np.float32), (MANY, 3))
    y = call(drawn(tmp_path, "Bernoulli", [X], dtype=TensorProto.INT64), chances)
    assert (y.dtype, set(y.ravel())) == (np.int64, {0, 1})
    np.testing.assert_allclose(y.mean(0), [0, 0.3, 1], atol=0.02)
    assert (y[:, 0].max(), y[:, 2].min()) == (0, 1)
    assert call(drawn(tmp_path, "Bernoulli", [X]), chances).dtype == np.float32


@pytest.mark.parametrize(("dtype", "name"), [({}, "int32"), ({"dtype": 7}, "int64")])
def test_classes_are_drawn_by_their_log_probabilities(tmp_path, dtype, name):
    chances = np.array([[0.1, 0.2, 0.7], [0.5, 0.0, 0.5]], np.float32)
    with np.errstate(divide="ignore"):
        logits = np.log(chances) + 5
    y = call(drawn(tmp_path, "Multinomial", [X], sample_size=MANY, **dtype), logits)
    assert (y.dtype, y.shape) == (name, (2, MANY))
    for row, want in zip(y, chances, strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / MANY, want, atol=0.02)
    assert call(drawn(tmp_path, "Multinomial", [X]), logits).shape == (2, 1)


@pytest.mark.parametrize("seed", [{}, {"seed": 1.5}])
def test_every_call_draws_new_numbers_and_a_seed_repeats_after_each_load(tmp_path, seed):
    first, again = (drawn(tmp_path, "RandomNormal", shape=[5], **seed) for _ in range(2))
    a, b, c = call(first), call(first), call(again)
    assert not np.array_equal(a, b)
    assert np.array_equal(a, c) == bool(seed)


def test_seeds_of_fractions_differ(tmp_path):
    a, b = (call(drawn(tmp_path, "RandomUniform", shape=[5], seed=seed)) for seed in (0.25, 0.75))
    assert not np.array_equal(a, b)


def test_a_scalar_can_be_drawn(tmp_path):
    scalar: tuple[str, int, list[int]] = ("x", TensorProto.FLOAT, [])
    assert call(drawn(tmp_path, "RandomNormalLike", [scalar]), np.float32(1)).shape == ()


def test_integers_cannot_be_drawn(tmp_path):
    from transload.models.errors import Refused

    with pytest.raises(Refused, match="it draws int64, as its input is\n  fix: name a dtype"):
        drawn(tmp_path, "RandomNormalLike", [("x", TensorProto.INT64, ["N"])])
    with pytest.raises(Refused, match="the dtype int64 cannot be carried"):
        drawn(tmp_path, "RandomUniform", shape=[2], dtype=TensorProto.INT64)


@pytest.mark.parametrize("op_type", ["RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"])
def test_tflite_draws_too(bench, tmp_path, op_type):
    more = {"sample_size": 400} if op_type == "Multinomial" else {}
    answer = bench.in_tflite(drawn(tmp_path, op_type, [X], "TFLITE", **more))
    y = answer({"x": np.full((400, 3), 0.5, np.float32)})["y"]
    mean = {"RandomNormalLike": 0.0, "Multinomial": 1.0}.get(op_type, 0.5)
    assert y.shape == ((400, 400) if more else (400, 3))
    assert abs(y.mean() - mean) < 0.15
