"""Resize in every mode, to sizes and by scales, up and down, of known sizes and of dynamic ones."""

from typing import Any

import numpy as np
import pytest

COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]

# ONNX Runtime has no cubic half_pixel_symmetric, and align_corners is another one where a length is cut: see below.
MODES = [
    (mode, each, scales)
    for mode in ("nearest", "linear", "cubic")
    for each in COORDINATES
    for scales in ((2, 2), (1.5, 0.6), (2.3, 3))
    if (mode, each) != ("cubic", "half_pixel_symmetric") and (each != "align_corners" or scales == (2, 2))
]


def resized(case, shape, sizes=None, scales=None, *, dtype=None, **attributes):
    constants = {}
    if scales is not None:
        constants["scales"] = np.array(scales, np.float32)
    if sizes is not None:
        constants["sizes"] = np.array(sizes, np.int64)
    order = ["x", "", "scales" if scales is not None else "", *(["sizes"] if sizes is not None else [])]
    given = shape if dtype is None else (shape, lambda rng, shape: rng.integers(0, 100, shape).astype(dtype))
    return case("Resize", {"x": given}, constants, attributes, order=order)


def in_reference(folder, feeds):
    """What the specification's own implementation answers."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(str(folder / "model.onnx")).run(None, feeds)


def agrees_with_the_reference(bench, case, feeds):
    import tensorflow as tf

    lowered = bench.lowered(case)
    got = lowered.module.serve(*[tf.constant(feeds[spec.name]) for spec in lowered.inputs])
    for name, want in zip(lowered.outputs, in_reference(bench.folder, feeds), strict=True):
        np.testing.assert_allclose(got[name].numpy(), want, 1e-5, 1e-5)


@pytest.mark.parametrize(("mode", "coordinates", "scales"), MODES)
def test_by_scales(bench, case, mode, coordinates, scales):
    bench.agrees_both_ways(
        lambda s: resized(
            case, s("NCHW"), scales=(1, 1, *scales), mode=mode, coordinate_transformation_mode=coordinates
        ),
        atol=1e-4,
    )


@pytest.mark.parametrize("sizes", [(14, 12), (5, 9), (1, 1)])
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_to_sizes(bench, case, mode, coordinates, sizes):
    bench.agrees_both_ways(
        lambda s: resized(case, s("NCHW"), sizes, mode=mode, coordinate_transformation_mode=coordinates, axes=[2, 3]),
        atol=1e-4,
    )


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_height_and_width_that_come_with_the_image(bench, case, mode, coordinates):
    for scales in ((2, 2), (2, 3)) if coordinates == "align_corners" else ((2, 2), (1.5, 0.6)):
        made = resized(
            case, ("N", 3, "H", "W"), scales=(1, 1, *scales), mode=mode, coordinate_transformation_mode=coordinates
        )
        bench.agrees(made, atol=1e-4)


@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "align_corners"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes_that_the_model_computes(bench, case, mode, coordinates):
    four = ((4,), lambda rng, shape: rng.integers(1, 9, shape))
    made = case(
        "Resize",
        {"x": ("N", 3, "H", "W"), "sizes": four},
        attributes={"mode": mode, "coordinate_transformation_mode": coordinates},
        order=["x", "", "", "sizes"],
    )
    # One place of PyTorch's half pixels lies at 0 by the words, and at -0.5 by the reference: to cubic another one.
    one = 2 if (mode, coordinates) == ("cubic", "pytorch_half_pixel") else 1
    for sizes in ((2, 3, one, 5), (2, 3, 8, one), (3, 2, 4, 7)):
        feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 4, 7)).astype(np.float32)}
        agrees_with_the_reference(bench, made, feeds | {"sizes": np.array(sizes)})


@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric"])
def test_every_kind_of_nearest(bench, case, nearest, coordinates):
    for factor in (2, 3):
        bench.agrees_both_ways(
            lambda s, factor=factor: resized(
                case,
                s("NCHW"),
                scales=(1, 1, factor, 0.4),
                coordinate_transformation_mode=coordinates,
                nearest_mode=nearest,
            )
        )


def test_the_nearest_kernel_is_used_only_where_each_element_is_repeated(bench, case):
    """Rounding up leaves the first element out at once: no kernel does."""

    def kernels(nearest):
        made = resized(
            case,
            ("N", 3, "H", "W"),
            scales=(1, 1, 2, 2),
            coordinate_transformation_mode="asymmetric",
            nearest_mode=nearest,
        )
        graph = bench.agrees(made).module.serve.graph
        return [each.type for each in graph.get_operations() if "Nearest" in each.type]

    assert kernels("floor") == ["ResizeNearestNeighbor"]
    assert kernels("ceil") == []


@pytest.mark.parametrize("sizes", [(3, 2), (14, 3)])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiased(bench, case, mode, sizes):
    bench.agrees_both_ways(lambda s: resized(case, s("NCHW"), sizes, mode=mode, antialias=1, axes=[2, 3]), atol=1e-4)
    bench.agrees(resized(case, ("N", 3, "H", "W"), sizes, mode=mode, antialias=1, axes=[2, 3]), atol=1e-4)


def test_cubic_with_its_own_coefficient_and_nothing_from_outside(bench, case):
    bench.agrees_both_ways(
        lambda s: resized(case, s("NCHW"), scales=(1, 1, 2, 2), mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
        atol=1e-4,
    )


@pytest.mark.parametrize(
    ("shape", "scales"),
    [("NCH", (1, 1, 2)), ("NCDHW", (1, 1, 2, 1.5, 2)), ("N", (2,)), ("NH", (1, 2)), ("NCHW", (2, 1.5, 1, 2))],
)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_any_rank_and_any_axis(bench, case, mode, shape, scales):
    feeds = {
        "x": np.random.default_rng(0).standard_normal([{"N": 2, "C": 4, "D": 3, "H": 5, "W": 6}[a] for a in shape])
    }
    made = resized(case, tuple(shape), scales=scales, mode=mode)
    agrees_with_the_reference(bench, made, {"x": feeds["x"].astype(np.float32)})


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64])
def test_integers_are_rounded(bench, case, mode, dtype):
    made = resized(case, ("N", 2, 3, 5), scales=(1, 1, 2, 1.5), mode=mode, dtype=dtype)
    x = np.random.default_rng(0).integers(-100 if np.iinfo(dtype).min else 0, 120, (2, 2, 3, 5)).astype(dtype)
    agrees_with_the_reference(bench, made, {"x": x})


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_axes_in_proportion(bench, case, mode, policy):
    """The halves of 7/2 * 3 and 5/2 * 3 are rounded up."""
    for shape, sizes in (((2, 3, 4, 6), (7, 9)), ((2, 3, 2, 3), (7, 30)), ((2, 3, 5, 3), (30, 5))):
        feeds = {"x": np.random.default_rng(0).standard_normal(shape).astype(np.float32)}
        for declared in (("N", *shape[1:]), ("N", 3, "H", "W")):
            made = resized(case, declared, sizes, mode=mode, axes=[2, 3], keep_aspect_ratio_policy=policy)
            agrees_with_the_reference(bench, made, feeds)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("region", [(0.1, 0.2, 0.7, 1.0), (-0.4, 0.0, 1.3, 0.5)])
def test_a_region_is_cut_out(bench, case, mode, region):
    attributes = {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0}
    constants = {"roi": np.array(region, np.float32), "sizes": np.array([5, 1])}
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 6, 7)).astype(np.float32)}
    for shape in (("N", 3, 6, 7), ("N", 3, "H", "W")):
        made = case("Resize", {"x": shape}, constants, attributes | {"axes": [2, 3]}, order=["x", "roi", "", "sizes"])
        agrees_with_the_reference(bench, made, feeds)


def test_a_corner_is_where_the_reference_has_it_unless_pytorch_wrote_the_model(bench, case, monkeypatch):
    """7 * 1.5 is 10.5: the reference's last corner lies at 9.5; in the words, PyTorch and ONNX Runtime at 9."""
    from transload.converters.onnx_graph import graph

    made = resized(
        case, ("N", 2, 7, 5), scales=(1, 1, 1.5, 1.5), mode="linear", coordinate_transformation_mode="align_corners"
    )
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 2, 7, 5)).astype(np.float32)}
    agrees_with_the_reference(bench, made, feeds)
    monkeypatch.setattr(graph, "_origin", lambda node: graph.NodeOrigin("up", "net.py:3"))
    bench.agrees(made)


def test_an_axis_without_elements(bench, case):
    made = resized(case, ("N", 0, 4, 4), scales=(1, 1, 2, 2), mode="linear")
    agrees_with_the_reference(bench, made, {"x": np.zeros((2, 0, 4, 4), np.float32)})


@pytest.mark.parametrize(("op_type", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10)], ids=str)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_older_wordings(bench, case, op_type, opset, mode):
    scales = [1.0, 1.0, 2.0, 3.0]
    constants = {} if opset == 7 else {"scales": np.array(scales, np.float32)}
    attributes = {"mode": mode} | ({"scales": scales} if opset == 7 else {})
    bench.agrees_both_ways(lambda s: case(op_type, {"x": s("NCHW")}, constants, attributes, opset=opset), atol=1e-4)


def test_cases_undefined_by_an_older_wording_are_refused(bench, case):
    from transload.models.errors import Refused

    scales = {"scales": np.array([1, 1, 0.5, 1], np.float32)}
    with pytest.raises(Refused, match="nothing says which elements are left out"):
        bench.lowered(case("Resize", {"x": ("N", 3, 4, 4)}, scales, opset=10))


@pytest.mark.parametrize(
    ("mode", "coordinates", "kernel"),
    [("linear", "half_pixel", "ResizeBilinear"), ("linear", "align_corners", "ResizeBilinear"),
     ("nearest", "asymmetric", "ResizeNearestNeighbor")],
)  # fmt: skip
def test_doubling_an_image_between_convolutions_is_one_kernel_without_transposes(
    bench, case, mode, coordinates, kernel
):
    import tensorflow as tf

    from transload.converters.onnx_graph.semantics.resampling_attributes import ResizeMethod
    from transload.converters.onnx_to_tf.common.resampling import ResampledAxis, resample_axes
    from transload.converters.onnx_to_tf.values import Layout, computed

    def double(image):
        value = computed(image, Layout.CHANNELS_LAST)
        doubled = [(at, value.size(at), value.size(at) * 2) for at in (2, 3)]
        axes = [ResampledAxis(at, size, target, 2.0, target, exact=True) for at, size, target in doubled]
        weights: Any = None  # no axis is resampled by a matrix
        return resample_axes(value, axes, ResizeMethod(mode, coordinates), "float32", weights).tensor(
            Layout.CHANNELS_LAST
        )

    graph = tf.function(double).get_concrete_function(tf.TensorSpec([None, None, None, 8])).graph
    types = [each.type for each in graph.get_operations()]
    assert types.count(kernel) == 1
    assert "Transpose" not in types


@pytest.mark.parametrize(
    ("mode", "coordinates", "shape"),
    [
        ("nearest", "asymmetric", ("N", 3, 7, 6)),
        ("linear", "pytorch_half_pixel", ("N", 3, "H", "W")),
        ("linear", "align_corners", ("N", 3, 7)),
        ("cubic", "half_pixel", ("N", 3, 7, 2)),
    ],
)
def test_in_tflite(bench, case, mode, coordinates, shape):
    scales = (1, 1, 2, 2)[: len(shape)]
    made = resized(case, shape, scales=scales, mode=mode, coordinate_transformation_mode=coordinates)
    bench.agrees_in_tflite(made, atol=1e-4)


@pytest.mark.parametrize(("size", "over", "under"), [(2_646_000, 1_000_000, 2_646_000), (46_341, 46_341, 3), (5, 3, 2)])
def test_a_share_of_a_long_axis_does_not_wrap_around(size, over, under):
    import tensorflow as tf

    from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW
    from transload.converters.onnx_to_tf.operators.image.resize import wide_product

    computed = [tf.constant(each, tf.int32) for each in (size, over, under)]
    expected = (2 * over * size + under) // (2 * under)
    assert TENSORFLOW.scaled_size(size, over, under) == expected
    assert int(TENSORFLOW.scaled_size(*computed)) == expected
    assert int(wide_product(*computed[:2])) == size * over
