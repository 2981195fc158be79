"""Pools, and values put back where a pool found them."""

from typing import Any

import numpy as np
import pytest

from ...conftest import LARGE, roomy

POOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("NCHW", {"kernel_shape": [3, 2]}),
    "strided": ("NCHW", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "padded": ("NCHW", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "padded unevenly": ("NCHW", {"kernel_shape": [3, 2], "pads": [0, 1, 2, 0]}),
    "ceil": ("NCHW", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "ceil and padded": ("NCHW", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    "upper": ("NCHW", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "lower": ("NCHW", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "dilated": ("NCHW", {"kernel_shape": [2, 3], "dilations": [2, 1], "strides": [1, 2], "pads": [1, 0, 0, 1]}),
    "dilated, ceil": ("NCHW", {"kernel_shape": [2, 2], "dilations": [2, 2], "strides": [2, 3], "ceil_mode": 1}),
    "one axis": ("NCH", {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    "three axes": ("NCDHW", {"kernel_shape": [2, 3, 2], "strides": [1, 2, 1]}),
    "three axes, padded": ("NCDHW", {"kernel_shape": [2, 3, 2], "strides": [1, 2, 1], "pads": [1, 1, 0, 0, 1, 1]}),
    "three axes, dilated": ("NCDHW", {"kernel_shape": [2, 2, 2], "dilations": [1, 2, 2], "pads": [0, 1, 0, 1, 0, 1]}),
}
IN_TFLITE = ("padded", "ceil and padded", "lower", "dilated", "one axis", "three axes, padded")
NEGATIVE = lambda rng, shape: -rng.uniform(1, 3, shape).astype(np.float32)  # noqa: E731  padding with 0 would win


def negative_and_roomy(rng, shape):
    return -1 - np.abs(roomy(rng, shape))


@pytest.mark.parametrize("name", POOLS)
def test_max_pool(bench, case, name):
    shape, attributes = POOLS[name]
    bench.agrees_both_ways(lambda s: case("MaxPool", {"x": (s(shape), NEGATIVE)}, attributes=attributes))


@pytest.mark.parametrize("in_tflite", [False, True])
@pytest.mark.parametrize("name", IN_TFLITE)
def test_max_pool_over_axes_of_any_size(bench, case, name, in_tflite):
    shape, attributes = POOLS[name]
    made = case("MaxPool", {"x": (LARGE[shape], negative_and_roomy)}, attributes=attributes)
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


@pytest.mark.parametrize("in_tflite", [False, True])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_max_pool_of_integers(bench, case, dtype, in_tflite):
    def maker(rng, shape):
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)

    made = case("MaxPool", {"x": (("N", 4, 7, 6), maker)}, attributes=POOLS["ceil and padded"][1])
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize("name", ["padded", "ceil", "lower", "dilated", "one axis", "three axes, padded"])
def test_the_places_of_the_largest(bench, case, name, storage_order):
    shape, attributes = POOLS[name]
    attributes = {**attributes, "storage_order": storage_order}
    few = lambda rng, shape: rng.integers(-3, 0, shape).astype(np.float32)  # noqa: E731  the first of equals counts
    bench.agrees_both_ways(lambda s: case("MaxPool", {"x": (s(shape), few)}, attributes=attributes, outputs=2))


@pytest.mark.parametrize("in_tflite", [False, True])
def test_the_places_of_the_largest_over_axes_of_any_size(bench, case, in_tflite):
    attributes = POOLS["ceil and padded"][1]
    made = case("MaxPool", {"x": (LARGE["NCHW"], negative_and_roomy)}, attributes=attributes, outputs=2)
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


@pytest.mark.parametrize("in_tflite", [False, True])
def test_minus_infinity_is_the_largest_of_minus_infinities(bench, case, in_tflite):
    nothing = lambda rng, shape: np.full(shape, -np.inf, np.float32)  # noqa: E731
    made = case("MaxPool", {"x": (("N", 4, 7, 6), nothing)}, attributes=POOLS["dilated"][1])
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


def test_a_max_pool_pads_with_what_lies_inside_so_that_8_bits_keep_their_range(bench, case):
    """The lowest number as padding would be part of the range that is quantised."""
    for attributes in (POOLS["padded"][1], POOLS["lower"][1], {"kernel_shape": [4, 4], "pads": [2, 1, 2, 1]}):
        lowered = bench.lowered(case("MaxPool", {"x": (LARGE["NCHW"], roomy)}, attributes=attributes))
        assert "PadV2" not in {each.type for each in lowered.module.serve.graph.get_operations()}


@pytest.mark.parametrize("with_pads", [0, 1])
@pytest.mark.parametrize("name", POOLS)
def test_average_pool(bench, case, name, with_pads):
    shape, attributes = POOLS[name]
    attributes = {**attributes, "count_include_pad": with_pads}
    bench.agrees_both_ways(lambda s: case("AveragePool", {"x": s(shape)}, attributes=attributes))


@pytest.mark.parametrize("in_tflite", [False, True])
@pytest.mark.parametrize("with_pads", [0, 1])
@pytest.mark.parametrize("name", IN_TFLITE)
def test_average_pool_over_axes_of_any_size(bench, case, name, with_pads, in_tflite):
    shape, attributes = POOLS[name]
    attributes = {**attributes, "count_include_pad": with_pads}
    made = case("AveragePool", {"x": (LARGE[shape], roomy)}, attributes=attributes)
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool"])
def test_auto_pad_knows_no_ceil(bench, case, op_type):
    """VALID makes ceil((size - extent + 1) / stride) places, says the specification, with ceil_mode and without."""
    attributes = {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "VALID", "ceil_mode": 1}
    lowered = bench.lowered(case(op_type, {"x": ("N", 4, 7, 6)}, attributes=attributes))
    assert lowered.module.serve.structured_outputs["y0"].shape.as_list() == [None, 4, 3, 3]


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
@pytest.mark.parametrize("shape", ["NCH", "NCHW", "NCDHW"])
def test_global_pools(bench, case, op_type, shape):
    bench.agrees_both_ways(lambda s: case(op_type, {"x": s(shape)}))


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("name", ["padded", "upper", "one axis", "three axes, padded", "dilated"])
def test_lp_pool(bench, case, name, p):
    shape, attributes = POOLS[name]
    bench.agrees_both_ways(lambda s: case("LpPool", {"x": s(shape)}, attributes={**attributes, "p": p}), rtol=1e-4)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(bench, case, p):
    bench.agrees_both_ways(lambda s: case("GlobalLpPool", {"x": s("NCHW")}, attributes={"p": p}), rtol=1e-4)


def places(rng, shape):
    """In each window of 2 x 2 one place, of an answer that is twice as large."""
    batch, channels, high, wide = shape
    rows, columns = (2 * np.arange(size)[:, None] for size in (high, wide))
    inside = rng.integers(0, 2, (2, *shape))
    before = np.arange(batch * channels).reshape(batch, channels, 1, 1) * 4 * high * wide
    return before + (rows + inside[0]) * 2 * wide + columns[:, 0] + inside[1]


@pytest.mark.parametrize("in_tflite", [False, True])
def test_max_unpool(bench, case, in_tflite):
    def made(s):
        inputs = {"x": s("NCHW"), "i": (s("NCHW"), places)}
        return case("MaxUnpool", inputs, attributes={"kernel_shape": [2, 2], "strides": [2, 2]})

    if in_tflite:
        from ...conftest import DISTINCT, Sizes

        bench.agrees_in_tflite(made(Sizes(DISTINCT)))
    else:
        bench.agrees_both_ways(made)


def test_an_element_found_by_two_windows_is_put_back_once(bench, case):
    ones, first = lambda rng, shape: np.ones(shape, np.float32), lambda rng, shape: np.zeros(shape, np.int64)
    inputs = {"x": (("N", 3, 4, 5), ones), "i": (("N", 3, 4, 5), first)}
    bench.agrees(case("MaxUnpool", inputs, attributes={"kernel_shape": [2, 2]}))


def test_an_unpooling_with_pads_and_output_shape_is_refused(bench, case):
    from transload.models.errors import Refused

    inputs = {"x": ("N", 3, 4, 5), "i": (("N", 3, 4, 5), places)}
    shape = {"s": np.array([1, 3, 8, 10])}
    with pytest.raises(Refused, match="both pads and output_shape"):
        bench.lowered(case("MaxUnpool", inputs, shape, {"kernel_shape": [2, 2], "pads": [1, 0, 0, 0]}))


# What is less than 0 although it comes of an operator that mostly makes nothing so: input and nodes before a pool.
BELOW_ZERO = {
    "a bound above that the model computes": ("float", "m = ReduceMin<keepdims=0>(x) a = Clip(x, zero, m)"),
    "the lowest of signed integers": ("int8", "a = Abs(x)"),
    "a square that wraps around": ("int32", "s = Pow(x, two) a = Cast<to=1>(s)"),
}


@pytest.mark.parametrize("name", BELOW_ZERO)
def test_pads_do_not_win_over_what_is_below_zero_after_all(bench, name):
    kind, nodes = BELOW_ZERO[name]
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
        g ({kind}[N, 2, 6, 6] x) => ({"int8" if kind == "int8" else "float"}[N, 2, 3, 3] y)
        <float zero = {{0}}, int32 two = {{2}}> {{
            {nodes} y = MaxPool<kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]>(a) }}"""
    value = {"float": np.float32(-5), "int8": np.int8(-128), "int32": np.int32(50_000)}[kind]
    bench.model_agrees(text, {"x": np.full((2, 2, 6, 6), value)}, tflite=False)
