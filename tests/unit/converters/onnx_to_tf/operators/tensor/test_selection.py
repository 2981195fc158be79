"""Elements selected by their values: the largest, the different, those that are not zero, those of a condition."""

from typing import Any

import numpy as np
import pytest

NAN, INF = np.nan, np.inf


def drawn(dtype, low=-3, high=4):
    """A few different numbers, so that there are equals."""
    low = max(low, np.iinfo(dtype).min) if np.issubdtype(dtype, np.integer) else low
    return lambda rng, shape: rng.integers(low, high, shape).astype(dtype)


def answers(bench, case, feeds):
    import tensorflow as tf

    lowered = bench.lowered(case)
    got = lowered.module.serve(*[tf.constant(feeds[spec.name]) for spec in lowered.inputs])
    return [got[name].numpy() for name in lowered.outputs]


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_the_first_of_equals_is_taken(bench, case, dtype, axis, largest):
    bench.agrees_both_ways(
        lambda s: case(
            "TopK",
            {"x": (s("NCHW") if axis else (s.C, s.H, s.W, "N"), drawn(dtype))},
            {"k": np.array([3])},
            {"axis": axis, "largest": largest},
            outputs=2,
        )
    )


@pytest.mark.parametrize("largest", [0, 1])
def test_nan_is_above_all(bench, case, largest):
    x = np.array([[1, NAN, INF, -INF, NAN, 3, -NAN, 0.0, -0.0]], np.float32)
    made = case("TopK", {"x": ("N", 9)}, {"k": np.array([9])}, {"largest": largest}, outputs=2)
    values, places = answers(bench, made, {"x": x})
    expected = [1, 4, 6, 2, 5, 0, 7, 8, 3] if largest else [3, 7, 8, 0, 5, 2, 1, 4, 6]
    np.testing.assert_array_equal(places, [expected])
    np.testing.assert_array_equal(values, x[:, expected])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.uint64, np.int64, np.float64, np.float16])
def test_the_smallest_of_every_dtype(bench, case, dtype):
    bounds = np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else np.finfo(dtype)
    x = np.array([[bounds.max, 1, bounds.min, 0, 2]], dtype)
    made = case("TopK", {"x": (("N", 5), drawn(dtype))}, {"k": np.array([3])}, {"largest": 0}, outputs=2)
    values, places = answers(bench, made, {"x": x})
    by_value = np.argsort(x, axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(places, by_value)
    np.testing.assert_array_equal(values, np.take_along_axis(x, by_value, 1))


def test_a_count_that_the_model_computes(bench, case):
    count = ((1,), lambda rng, shape: np.array([2 + int(rng.integers(3))]))
    bench.agrees(case("TopK", {"x": ("N", 7), "k": count}, outputs=2))


@pytest.mark.parametrize("opset", [1, 10])
def test_older_wordings_take_the_largest(bench, case, opset):
    x = np.array([[3, 1, 3, 2]], np.float32)
    constants, attributes = ({}, {"k": 3}) if opset == 1 else ({"k": np.array([3])}, {})
    values, places = answers(
        bench, case("TopK", {"x": ("N", 4)}, constants, attributes, outputs=2, opset=opset), {"x": x}
    )
    np.testing.assert_array_equal(values, [[3, 3, 2]])
    np.testing.assert_array_equal(places, [[0, 2, 3]])


def test_the_largest_channels_need_no_transpose_where_channels_lie_last(bench, case):
    import tensorflow as tf
    from onnx.helper import make_attribute

    from transload.converters.onnx_graph.graph import Node, NodeOrigin
    from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW
    from transload.converters.onnx_to_tf.operator_context import OperatorContext
    from transload.converters.onnx_to_tf.operators.tensor import selection
    from transload.converters.onnx_to_tf.values import Layout, computed, known

    def largest(image):
        value = computed(image, Layout.CHANNELS_LAST)
        axis = {"axis": make_attribute("axis", 1)}
        node = Node("TopK", "", 11, "", ("x", "k"), ("values", "places"), axis, NodeOrigin(), {"": 11})
        unused: Any = None  # TopK holds no weights and calls no subgraph
        op = OperatorContext(node, [value, known(np.array([2]), unused)], unused, TENSORFLOW, unused)
        return [output.tensor(Layout.CHANNELS_LAST) for output in selection.top_k(op)]

    graph = tf.function(largest).get_concrete_function(tf.TensorSpec([None, 4, 5, 6])).graph
    assert "Transpose" not in [each.type for each in graph.get_operations()]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_places_of_elements_that_are_not_zero(bench, case, dtype):
    bench.agrees_both_ways(lambda s: case("NonZero", {"x": (s("NCHW"), drawn(dtype, 0, 2))}))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_slices_by_a_condition_that_may_be_shorter(bench, case, axis):
    condition = np.array([True, False, True])
    attributes = {} if axis is None else {"axis": axis}
    bench.agrees_both_ways(
        lambda s: case("Compress", {"x": (s.C, s.H, "N", s.W)}, {"condition": condition}, attributes)
    )


@pytest.mark.parametrize("ascending", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8])
def test_different_elements(bench, case, dtype, axis, ascending):
    attributes = {"sorted": ascending} | ({} if axis is None else {"axis": axis})
    bench.agrees_both_ways(
        lambda s: case("Unique", {"x": ((s.H, "N", 2), drawn(dtype, 0, 2))}, attributes=attributes, outputs=4)
    )


def test_every_nan_is_the_same_and_the_last(bench, case):
    x = np.array([NAN, 2, -0.0, NAN, 0.0, -INF], np.float32)
    found = answers(bench, case("Unique", {"x": ("N",)}, outputs=4), {"x": x})
    expected = ([-INF, 0, 2, NAN], [5, 2, 1, 0], [3, 2, 1, 3, 1, 0], [1, 2, 1, 2])
    for have, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_an_empty_tensor_has_no_different_elements(bench, case, shape):
    made = case("Unique", {"x": tuple("NM"[: len(shape)])}, outputs=4)
    assert [each.shape for each in answers(bench, made, {"x": np.zeros(shape, np.float32)})] == [(0,)] * 4


@pytest.mark.parametrize(
    ("op_type", "constants", "attributes", "outputs"),
    [("TopK", {"k": np.array([3])}, {"axis": 1, "largest": 0}, 2),
     ("NonZero", {}, {}, 1),
     ("Compress", {"condition": np.array([True, False, True])}, {"axis": 1}, 1),
     ("Unique", {}, {"axis": 1, "sorted": 0}, 4),
     ("Unique", {}, {}, 4)],
)  # fmt: skip
def test_in_tflite(bench, case, op_type, constants, attributes, outputs):  # noqa: PLR0917  one for each column
    bench.agrees_in_tflite(
        case(op_type, {"x": (("N", 5, 3), drawn(np.float32, 0, 2))}, constants, attributes, outputs=outputs)
    )


def test_places_that_are_an_output_are_read_in_tflite_where_there_are_none(bench):
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[n, 3] x) => (int64[m, 2] rows) {
        places = NonZero(x)
        rows = Transpose <perm = [1, 0]> (places)
    }"""
    bench.model_agrees(text, *({"x": np.full((2, 3), number, np.float32)} for number in (0, 1, 0)))
