"""Padding, and the middle of a value."""

import numpy as np
import pytest

from ...conftest import roomy


def ints(*values):
    return np.array(values, np.int64)


PADS = {
    "outside": (0, 1, 2, 1, 0, 2, 1, 2),
    "nowhere": (0,) * 8,
    "cut": (0, -1, 0, -2, 0, 0, -1, 0),
    "cut and padded": (0, 1, -1, 1, 0, -1, 1, -2),
}
MODES = ("constant", "reflect", "edge", "wrap")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PADS)
def test_pads(bench, case, name, mode):
    constants = {"p": ints(*PADS[name])}
    bench.agrees_both_ways(lambda s: case("Pad", {"x": s("NCHW")}, constants, {"mode": mode}, opset=21))


def test_the_batch_is_padded_like_any_axis(bench, case):
    constants = {"p": ints(1, 0, 2, 0), "v": np.float32(7).reshape(()), "a": ints(0, -1)}
    bench.agrees_both_ways(lambda s: case("Pad", {"x": s("NCHW")}, constants))


@pytest.mark.parametrize("in_tflite", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_pads_over_axes_of_any_size(bench, case, mode, in_tflite):
    constants = {"p": ints(2, -1, 1, 3), "a": ints(-1, 2)}
    made = case("Pad", {"x": (("N", 4, "h", "w"), roomy)}, constants, {"mode": mode}, ["x", "p", "", "a"], opset=21)
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


@pytest.mark.parametrize("in_tflite", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_pads_that_the_model_computes(bench, case, mode, in_tflite):
    pads = lambda rng, shape: rng.integers(-1, 3, shape)  # noqa: E731
    inputs = {"x": ("N", 4, 5, 6), "p": ((4,), pads)}
    made = case("Pad", inputs, {"a": ints(3, 1)}, {"mode": mode}, ["x", "p", "", "a"], opset=21)
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


@pytest.mark.parametrize("in_tflite", [False, True])
def test_axes_that_the_model_computes(bench, case, in_tflite):
    axes = lambda rng, shape: rng.permutation(np.array([-3, 2, 3]))[: shape[0]]  # noqa: E731
    made = case("Pad", {"x": ("N", 4, 5, 6), "a": ((2,), axes)}, {"p": ints(1, 2, 0, -3)}, {}, ["x", "p", "", "a"])
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


@pytest.mark.parametrize("in_tflite", [False, True])
@pytest.mark.parametrize("width", [1, 2])
def test_more_axes_than_tflite_pads_where_neighbours_are_not_padded(bench, case, in_tflite, width):
    """Samples are spread so before they are blurred: StyleGAN's upsampling."""
    inputs = {"x": ("N", 3, "h", width, "w", width)}
    made = case("Pad", inputs, {"p": ints(1, 0, 2, 3), "a": ints(3, 5)}, {}, ["x", "p", "", "a"], opset=21)
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


DTYPES = ["int32", "int64", "uint8", "int8", "bool", "float16"]


@pytest.mark.parametrize(
    ("dtype", "in_tflite"), [("float64", False), *[(dtype, flat) for dtype in DTYPES for flat in (False, True)]]
)
def test_numbers_of_any_dtype_around_it(bench, case, dtype, in_tflite):
    maker = lambda rng, shape: rng.integers(0, 2, shape).astype(dtype)  # noqa: E731
    constants = {"p": ints(0, 1, 0, 1, 0, 2), "v": np.ones((), dtype)}
    made = case("Pad", {"x": (("N", 4, 5), maker)}, constants, opset=21)
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


def test_a_number_that_the_model_computes(bench, case):
    bench.agrees_both_ways(lambda s: case("Pad", {"x": s("NCH"), "v": ()}, {"p": ints(0, 1, 0, 1, 0, 2)}, {}, "xpv"))


@pytest.mark.parametrize("in_tflite", [False, True])
@pytest.mark.parametrize("number", [-np.inf, np.inf])
def test_infinity_around_it(bench, case, number, in_tflite):
    """Of an infinity that is a constant TFLite's converter makes the largest finite number."""
    made = case("Pad", {"x": ("N", 4, 5)}, {"p": ints(0, 1, 0, 1, 0, 2), "v": np.array(number, np.float32)})
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


def test_it_reflects_as_often_as_it_takes(bench, case):
    """As numpy.pad does, by which the specification explains itself; ONNX Runtime refuses more than the size."""
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    made = case("Pad", {"x": ("N", 2, 3)}, {"p": ints(0, 3, 4, 0, 0, 5)}, {"mode": "reflect"})
    got = bench.in_tensorflow(bench.lowered(made))({"x": x})["y0"]
    np.testing.assert_array_equal(got, np.pad(x, [(0, 0), (3, 0), (4, 5)], mode="reflect"))


@pytest.mark.parametrize("in_tflite", [False, True])
@pytest.mark.parametrize("shape", [(4, 7), (3, 8), (6, 5), (5, 6)])
def test_center_crop_pad(bench, case, shape, in_tflite):
    made = case("CenterCropPad", {"x": (("N", 4, "h", "w"), roomy)}, {"s": ints(*shape)}, {"axes": [-1, 1]})
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


def test_center_crop_pad_to_sizes_that_the_model_computes(bench, case):
    wanted = lambda rng, shape: rng.integers(2, 9, shape)  # noqa: E731
    bench.agrees_both_ways(
        lambda s: case("CenterCropPad", {"x": s("NCHW"), "s": ((2,), wanted)}, attributes={"axes": [2, 3]})
    )


def test_pads_for_other_axes_than_it_names_are_refused(bench, case):
    from transload.models.errors import Refused

    with pytest.raises(Refused, match="it has 2 pads for 2 axes"):
        bench.lowered(case("Pad", {"x": ("N", 4, 5)}, {"p": ints(1, 1), "a": ints(0, 1)}, {}, ["x", "p", "", "a"]))
