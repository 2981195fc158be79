"""Convolutions and pools."""

import numpy as np
import pytest


def weight(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


CONVS = {
    "plain": lambda s: ("NCHW", (s.M, s.C, 3, 2), {}),
    "same pads": lambda s: ("NCHW", (s.M, s.C, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided": lambda s: ("NCHW", (s.M, s.C, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "uneven": lambda s: ("NCHW", (s.M, s.C, 3, 2), {"pads": [0, 1, 2, 0], "strides": [2, 1]}),
    "dilated": lambda s: ("NCHW", (s.M, s.C, 2, 2), {"pads": [1, 2, 1, 2], "dilations": [1, 2]}),
    "dilated and strided": lambda s: ("NCHW", (s.M, s.C, 2, 2), {"strides": [2, 2], "dilations": [2, 2]}),
    "upper": lambda s: ("NCHW", (s.M, s.C, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "lower": lambda s: ("NCHW", (s.M, s.C, 3, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "valid": lambda s: ("NCHW", (s.M, s.C, 3, 2), {"auto_pad": "VALID"}),
    "groups": lambda s: ("NCHW", (s.M, s.C // 2, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "depthwise": lambda s: ("NCHW", (s.C, 1, 3, 3), {"group": s.C, "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "depthwise with a multiplier": lambda s: ("NCHW", (2 * s.C, 1, 3, 3), {"group": s.C, "pads": [1, 0, 1, 2]}),
    "depthwise, strides unlike": lambda s: ("NCHW", (s.C, 1, 3, 3), {"group": s.C, "strides": [2, 1]}),
    "one axis": lambda s: ("NCH", (s.M, s.C, 3), {"pads": [1, 2], "strides": [2]}),
    "one axis, depthwise": lambda s: ("NCH", (s.C, 1, 3), {"group": s.C, "dilations": [2], "pads": [2, 2]}),
    "three axes": lambda s: ("NCDHW", (s.M, s.C, 2, 3, 2), {"pads": [1, 1, 0, 0, 1, 1], "strides": [1, 2, 1]}),
    "three axes, groups": lambda s: ("NCDHW", (s.M, s.C // 2, 2, 3, 2), {"group": 2}),
}


@pytest.mark.parametrize("name", CONVS)
def test_conv(bench, case, name):
    def made(s):
        shape, kernel, attributes = CONVS[name](s)
        return case("Conv", {"x": s(shape)}, {"w": weight(*kernel), "b": weight(kernel[0])}, attributes)

    bench.agrees_both_ways(made, rtol=1e-4, atol=1e-4)


def test_conv_without_a_bias_and_with_axes_of_any_size(bench, case):
    kernel = {"w": weight(4, 3, 3, 3)}
    lowered = bench.lowered(case("Conv", {"x": ("N", 3, "N", "N")}, kernel, {"pads": [1, 1, 1, 1], "strides": [2, 2]}))
    assert lowered.module.serve.structured_outputs["y0"].shape.as_list() == [None, 4, None, None]


def test_conv_takes_a_weight_that_the_model_computes(bench, case):
    bench.agrees_both_ways(
        lambda s: case("Conv", {"x": s("NCHW"), "w": (s.M, s.C, 3, 3)}, {}, {"pads": [1, 1, 1, 1]}),
        rtol=1e-4,
        atol=1e-4,
    )


TRANSPOSED = {
    "plain": lambda s: ("NCHW", (s.C, s.M, 3, 2), {}),
    "strided": lambda s: ("NCHW", (s.C, s.M, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "output padding": lambda s: (
        "NCHW", (s.C, s.M, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}
    ),
    "uneven": lambda s: ("NCHW", (s.C, s.M, 3, 3), {"strides": [2, 3], "pads": [0, 1, 2, 0], "output_padding": [1, 2]}),
    "groups": lambda s: ("NCHW", (s.C, s.M // 2, 3, 3), {"group": 2, "strides": [2, 2]}),
    "one axis": lambda s: ("NCH", (s.C, s.M, 4), {"strides": [2], "pads": [1, 1]}),
    "three axes": lambda s: ("NCDHW", (s.C, s.M, 2, 3, 2), {"strides": [2, 1, 2]}),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSPOSED)
def test_conv_transpose(bench, case, name):
    def made(s):
        shape, kernel, attributes = TRANSPOSED[name](s)
        bias = weight(kernel[1] * attributes.get("group", 1))
        return case("ConvTranspose", {"x": s(shape)}, {"w": weight(*kernel), "b": bias}, attributes)

    bench.agrees_both_ways(made, rtol=1e-4, atol=1e-4)


POOLS = {
    "plain": ("NCHW", {"kernel_shape": [3, 2]}),
    "strided": ("NCHW", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "padded": ("NCHW", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "padded unevenly": ("NCHW", {"kernel_shape": [3, 2], "pads": [0, 1, 2, 0]}),
    "ceil": ("NCHW", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "ceil and padded": ("NCHW", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    "upper": ("NCHW", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "lower": ("NCHW", {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "one axis": ("NCH", {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    "three axes": ("NCDHW", {"kernel_shape": [2, 3, 2], "strides": [1, 2, 1]}),
    "three axes, padded": ("NCDHW", {"kernel_shape": [2, 3, 2], "strides": [1, 2, 1], "pads": [1, 1, 0, 0, 1, 1]}),
}
NEGATIVE = lambda rng, shape: -rng.uniform(1, 3, shape).astype(np.float32)  # noqa: E731  padding with 0 would win


@pytest.mark.parametrize("name", POOLS)
def test_max_pool(bench, case, name):
    shape, attributes = POOLS[name]
    bench.agrees_both_ways(lambda s: case("MaxPool", {"x": (s(shape), NEGATIVE)}, attributes=attributes))


@pytest.mark.parametrize("attributes", [{"dilations": [2, 1]}, {"dilations": [1, 2], "strides": [2, 1]}])
def test_max_pool_dilated(bench, case, attributes):
    attributes = {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1], **attributes}
    bench.agrees_both_ways(lambda s: case("MaxPool", {"x": (s("NCHW"), NEGATIVE)}, attributes=attributes))


@pytest.mark.parametrize("with_pads", [0, 1])
@pytest.mark.parametrize("name", POOLS)
def test_average_pool(bench, case, name, with_pads):
    shape, attributes = POOLS[name]
    attributes = {**attributes, "count_include_pad": with_pads}
    bench.agrees_both_ways(lambda s: case("AveragePool", {"x": s(shape)}, attributes=attributes))


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", ["NCH", "NCHW", "NCDHW"])
def test_global_pools(bench, case, op_type, shape):
    bench.agrees_both_ways(lambda s: case(op_type, {"x": s(shape)}))


def test_the_places_of_the_largest_are_refused(bench, case):
    from transload.models.errors import Refused

    with pytest.raises(Refused, match="its optional output 1 is not carried"):
        bench.lowered(case("MaxPool", {"x": ("N", 3, 6, 6)}, attributes={"kernel_shape": [2, 2]}, outputs=2))
