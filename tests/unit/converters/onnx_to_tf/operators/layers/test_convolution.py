"""Convolutions: plain, transposed, deformable, and blocks laid over an image."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ...conftest import LARGE, roomy


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
    "three axes, dilated and strided": lambda s: (
        "NCDHW",
        (s.M, s.C // 2, 2, 2, 3),
        {"dilations": [2, 1, 2], "strides": [1, 2, 2], "pads": [1, 0, 2, 0, 1, 2], "group": 2},
    ),
    "three axes, depthwise": lambda s: ("NCDHW", (s.C, 1, 2, 3, 2), {"group": s.C, "auto_pad": "SAME_LOWER"}),
}


@pytest.mark.parametrize("name", CONVS)
def test_conv(bench, case, name):
    def made(s):
        shape, kernel, attributes = CONVS[name](s)
        return case("Conv", {"x": s(shape)}, {"w": weight(*kernel), "b": weight(kernel[0])}, attributes)

    bench.agrees_both_ways(made, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("group", [1, 2, 4])
def test_pads_stay_where_the_strides_would_fit_without(bench, case, group):
    kernel = {"w": weight(4, 4 // group, 3, 3)}
    attributes = {"pads": [1, 1, 1, 1], "strides": [3, 3], "group": group}
    bench.agrees(case("Conv", {"x": ("N", 4, 6, 9)}, kernel, attributes), rtol=1e-4, atol=1e-4)


def test_conv_without_a_bias_and_with_axes_of_any_size(bench, case):
    kernel = {"w": weight(4, 3, 3, 3)}
    lowered = bench.lowered(case("Conv", {"x": ("N", 3, "N", "N")}, kernel, {"pads": [1, 1, 1, 1], "strides": [2, 2]}))
    assert lowered.module.serve.structured_outputs["y0"].shape.as_list() == [None, 4, None, None]


COMPUTED = {
    "plain": lambda s: ("NCHW", (s.M, s.C, 3, 3), {"pads": [1, 1, 1, 1]}),
    "depthwise": lambda s: ("NCHW", (2 * s.C, 1, 3, 2), {"group": s.C}),
    "three axes": lambda s: ("NCDHW", (s.M, s.C // 2, 2, 2, 3), {"group": 2, "dilations": [1, 2, 1]}),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_conv_takes_a_weight_that_the_model_computes(bench, case, name):
    def made(s):
        shape, kernel, attributes = COMPUTED[name](s)
        return case("Conv", {"x": s(shape), "w": kernel}, {}, attributes)

    bench.agrees_both_ways(made, rtol=1e-4, atol=1e-4)


SIZED = {
    "upper": ("NCHW", (6, 4, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
    "lower": ("NCHW", (6, 4, 3, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    "lower, depthwise": ("NCHW", (4, 1, 4, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 2], "group": 4}),
    "lower, one axis": ("NCH", (6, 4, 4), {"auto_pad": "SAME_LOWER", "strides": [3]}),
    "lower, three axes": ("NCDHW", (6, 4, 2, 3, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 2, 1]}),
    "three axes": ("NCDHW", (6, 4, 2, 3, 2), {"pads": [1, 0, 1, 0, 2, 1], "dilations": [2, 1, 1]}),
}


@pytest.mark.parametrize("in_tflite", [False, True])
@pytest.mark.parametrize("name", SIZED)
def test_conv_over_axes_of_any_size(bench, case, name, in_tflite):
    shape, kernel, attributes = SIZED[name]
    made = case("Conv", {"x": (LARGE[shape], roomy)}, {"w": weight(*kernel)}, attributes)
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["dilated", "groups", "one axis, depthwise", "three axes", "three axes, depthwise"])
def test_conv_in_tflite(bench, case, name):
    from ...conftest import DISTINCT, Sizes

    shape, kernel, attributes = CONVS[name](Sizes(DISTINCT))
    bench.agrees_in_tflite(
        case("Conv", {"x": Sizes(DISTINCT)(shape)}, {"w": weight(*kernel)}, attributes), rtol=1e-4, atol=1e-4
    )


def test_pads_and_strides_cost_no_operator_where_the_kernel_has_them(bench, case):
    def operators(kernel, **attributes):
        lowered = bench.lowered(case("Conv", {"x": (LARGE["NCHW"], roomy)}, {"w": weight(*kernel)}, attributes))
        return {each.type for each in lowered.module.serve.graph.get_operations()}

    assert "Pad" not in operators((6, 4, 3, 3), pads=[1, 1, 1, 1])
    assert "Pad" not in operators((6, 4, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2])
    assert "Pad" not in operators((4, 1, 3, 3), pads=[1, 1, 1, 1], group=4)
    assert "Pad" not in operators((6, 4, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2])


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"pads": [0, -1, 0, 0]}, "its pads are"),
        ({"group": 2}, "4 channels do not fit a weight of 4 and 2 groups"),
        ({"auto_pad": "VALID", "pads": [1, 0, 0, 0]}, "both auto_pad and pads"),
    ],
)
def test_a_convolution_that_the_specification_does_not_allow_is_refused(bench, case, attributes, words):
    from transload.models.errors import Refused

    with pytest.raises(Refused, match=words):
        bench.lowered(case("Conv", {"x": ("N", 4, 7, 6)}, {"w": weight(6, 4, 3, 3)}, attributes))


TRANSPOSED: dict[str, Callable[[Any], tuple[str, tuple[int, ...], dict[str, Any]]]] = {
    "plain": lambda s: ("NCHW", (s.C, s.M, 3, 2), {}),
    "strided": lambda s: ("NCHW", (s.C, s.M, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "output padding": lambda s: (
        "NCHW", (s.C, s.M, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}
    ),
    "uneven": lambda s: ("NCHW", (s.C, s.M, 3, 3), {"strides": [2, 3], "pads": [0, 1, 2, 0], "output_padding": [1, 2]}),
    "groups": lambda s: ("NCHW", (s.C, s.M // 2, 3, 3), {"group": 2, "strides": [2, 2]}),
    "one axis": lambda s: ("NCH", (s.C, s.M, 4), {"strides": [2], "pads": [1, 1]}),
    "three axes": lambda s: ("NCDHW", (s.C, s.M, 2, 3, 2), {"strides": [2, 1, 2]}),
    "depthwise": lambda s: ("NCHW", (s.C, 1, 4, 4), {"group": s.C, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "dilated": lambda s: ("NCHW", (s.C, s.M, 2, 3), {"dilations": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 2]}),
    "one axis, dilated, groups": lambda s: ("NCH", (s.C, s.M // 2, 3), {"group": 2, "dilations": [2], "strides": [3]}),
    "three axes, groups": lambda s: (
        "NCDHW", (s.C, s.M // 2, 2, 3, 2), {"group": 2, "strides": [2, 1, 2], "pads": [1, 0, 0, 0, 1, 1]}
    ),
    "upper": lambda s: ("NCHW", (s.C, s.M, 5, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "lower": lambda s: ("NCHW", (s.C, s.M, 4, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "more padding than pads": lambda s: ("NCHW", (s.C, s.M, 2, 2), {"strides": [3, 2], "output_padding": [2, 1]}),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSPOSED)
def test_conv_transpose(bench, case, name):
    def made(s):
        shape, kernel, attributes = TRANSPOSED[name](s)
        bias = weight(kernel[1] * attributes.get("group", 1))
        return case("ConvTranspose", {"x": s(shape)}, {"w": weight(*kernel), "b": bias}, attributes)

    bench.agrees_both_ways(made, rtol=1e-4, atol=1e-4)


TRANSPOSED_SIZED = {
    "same": ("NCHW", (4, 6, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "output padding": ("NCHW", (4, 6, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}),
    "groups, dilated": ("NCHW", (4, 3, 3, 2), {"strides": [2, 3], "group": 2, "dilations": [2, 1]}),
    "upper": ("NCHW", (4, 6, 4, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "one axis": ("NCH", (4, 6, 4), {"strides": [2], "pads": [1, 1]}),
    "three axes": ("NCDHW", (4, 6, 2, 2, 2), {"strides": [2, 2, 2]}),
}


@pytest.mark.parametrize("in_tflite", [False, True])
@pytest.mark.parametrize("name", TRANSPOSED_SIZED)
def test_conv_transpose_over_axes_of_any_size(bench, case, name, in_tflite):
    shape, kernel, attributes = TRANSPOSED_SIZED[name]
    made = case("ConvTranspose", {"x": (LARGE[shape], roomy)}, {"w": weight(*kernel)}, attributes)
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("group", [1, 2])
def test_conv_transpose_takes_a_weight_that_the_model_computes(bench, case, group):
    bench.agrees_both_ways(
        lambda s: case(
            "ConvTranspose",
            {"x": s("NCHW"), "w": (s.C, s.M // group, 3, 2)},
            {},
            {"group": group, "strides": [2, 2], "pads": [1, 0, 1, 1]},
        ),
        rtol=1e-4,
        atol=1e-4,
    )


def test_conv_transpose_has_the_requested_output_shape(bench, case):
    bench.agrees_both_ways(
        lambda s: case(
            "ConvTranspose",
            {"x": s("NCHW")},
            {"w": weight(s.C, s.M, 3, 3)},
            {"strides": [3, 2], "output_shape": [3 * s.H - 1, 2 * s.W - 2]},
        ),
        rtol=1e-4,
        atol=1e-4,
    )


def test_pads_of_a_transposed_convolution_cost_no_operator_where_the_kernel_has_them(bench, case):
    attributes = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    lowered = bench.lowered(case("ConvTranspose", {"x": (LARGE["NCHW"], roomy)}, {"w": weight(4, 6, 4, 4)}, attributes))
    kernels = [each for each in lowered.module.serve.graph.get_operations() if each.type == "Conv2DBackpropInput"]
    assert [each.get_attr("padding") for each in kernels] == [b"SAME"]


DEFORMED: dict[str, dict[str, Any]] = {
    "plain": {"group": 1, "offset_group": 1, "mask": False, "attributes": {}},
    "groups, a mask": {"group": 2, "offset_group": 2, "mask": True, "attributes": {"pads": [1, 0, 2, 1]}},
    "strided, dilated": {
        "group": 1, "offset_group": 4, "mask": True, "attributes": {"strides": [2, 1], "dilations": [1, 2]}
    },
}  # fmt: skip


@pytest.mark.parametrize("name", DEFORMED)
@pytest.mark.parametrize("in_tflite", [False, True])
def test_deform_conv(bench, case, name, in_tflite):
    group, groups, mask, attributes = DEFORMED[name].values()
    kernel = (3, 2)
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0] * 4)

    def made(s):
        size = [s.H, s.W]
        out = [
            (size[at] + pads[at] + pads[at + 2] - (kernel[at] - 1) * dilations[at] - 1) // strides[at] + 1
            for at in range(2)
        ]
        inputs = {"x": s("NCHW"), "o": ("N", groups * 12, *out)}
        inputs |= {"m": ("N", groups * 6, *out)} if mask else {}
        constants = {"w": weight(s.M, s.C // group, *kernel), "b": weight(s.M)}
        order = ["x", "w", "o", "b", *(["m"] if mask else [])]
        given = {"group": group, "offset_group": groups, **attributes}
        return case("DeformConv", inputs, constants, given, order, opset=22)

    if in_tflite:
        from ...conftest import DISTINCT, Sizes

        bench.agrees_in_tflite(made(Sizes(DISTINCT)), rtol=1e-4, atol=1e-4)
    else:
        bench.agrees_both_ways(made, rtol=1e-4, atol=1e-4)


COLUMNS = {
    "apart": ([6, 6], [2, 3], {"strides": [2, 3]}, 6),
    "overlapping": ([5, 7], [2, 3], {}, 20),
    "padded, dilated": ([5, 6], [2, 3], {"pads": [1, 0, 0, 2], "dilations": [2, 1]}, 24),
    "three axes": ([3, 4, 5], [2, 1, 2], {"strides": [1, 2, 3]}, 8),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("in_tflite", [False, True])
def test_col2im(bench, case, name, in_tflite):
    image, block, attributes, count = COLUMNS[name]
    constants = {"i": np.array(image), "b": np.array(block)}
    made = case("Col2Im", {"x": ("N", 3 * int(np.prod(block)), count)}, constants, attributes)
    (bench.agrees_in_tflite if in_tflite else bench.agrees)(made)


def test_a_number_in_an_array_may_be_added_to_a_convolution_with_a_bias(bench):
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[N, 2, 5, 3] x) => (float[N, 2, 5, 3] y)
        <float[2, 2, 1, 1] w = {1, 2, 3, 4}, float[2] b = {5, 6}, float[1] more = {3}> {
        a = Conv(x, w, b)
        y = Add(a, more)
    }"""
    bench.model_agrees(text, {"x": np.ones((2, 2, 5, 3), np.float32)})


def test_pads_of_a_convolution_in_three_axes_come_on_top_of_a_pad(bench):
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[N, 1, 5, 6, 3] x) => (float[N, 1, d, h, w] y)
        <int64[10] pads = {0, 0, 1, 0, 0, 0, 0, 2, 0, 0}, float[1, 1, 1, 1, 1] w = {2}> {
        a = Pad(x, pads)
        y = Conv <pads = [1, 1, 1, 1, 1, 1]> (a, w)
    }"""
    bench.model_agrees(text, {"x": np.ones((2, 1, 5, 6, 3), np.float32)})


CHANNELS_OF_THE_WEIGHT = {
    "Conv": "y = Conv (t, w)",
    "Conv, depthwise": "y = Conv <group = 4> (t, v)",
    "Conv, by groups": "y = Conv <group = 2, strides = [1, 2]> (t, u)",
    "ConvTranspose": "y = ConvTranspose (t, w)",
}


@pytest.mark.parametrize("name", CHANNELS_OF_THE_WEIGHT)
def test_a_weight_says_how_many_channels_there_are(bench, name):
    """As after `.view(b, h, w, -1)`: TFLite's converter found no number of them, and said it had no such kernel."""
    rng = np.random.default_rng(3)
    shapes = {"w": (4, 4, 3, 3), "u": (4, 2, 3, 3), "v": (8, 1, 3, 3)}
    drawn = {at: ",".join(f"{each:.6f}" for each in rng.random(np.prod(shape))) for at, shape in shapes.items()}
    weights = ", ".join(f"float{[*shape]} {at} = {{{drawn[at]}}}" for at, shape in shapes.items())
    text = f"""<ir_version: 10, opset_import: ["" : 20]> g (float[n,h,w,c] x) => (float[n,m,p,q] y) <{weights}> {{
      t = Transpose <perm = [0, 3, 1, 2]> (x)  {CHANNELS_OF_THE_WEIGHT[name]} }}"""
    feeds = [{"x": rng.standard_normal(shape).astype("f4")} for shape in ((2, 5, 7, 4), (1, 4, 4, 4), (4, 4, 4, 4))]
    bench.model_agrees(text, *feeds)
