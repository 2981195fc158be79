"""Boxes chosen by their scores, and regions pooled."""

import numpy as np
import pytest


def boxes(rng, shape):
    """Corners of boxes that often overlap, either corner first."""
    at, size = rng.uniform(0, 4, (*shape[:-1], 2)), rng.uniform(-3, 3, (*shape[:-1], 2))
    return np.concatenate([at, at + size], -1).astype(np.float32)


def few_scores(rng, shape):
    """So few different ones that many are equal."""
    return (rng.integers(0, 5, shape) / 4).astype(np.float32)


def suppression(case, sizes=("N", 3, 9), limit=4, overlap=0.3, least=0.2, **attributes):
    batch, classes, count = sizes
    given = {"limit": limit, "overlap": overlap, "least": least}
    dtypes = {"limit": np.int64, "overlap": np.float32, "least": np.float32}
    constants = {name: np.array([each], dtypes[name]) for name, each in given.items() if each is not None}
    order = ["boxes", "scores", *(name if given[name] is not None else "" for name in given)]
    inputs = {"boxes": ((batch, count, 4), boxes), "scores": ((batch, classes, count), few_scores)}
    return case("NonMaxSuppression", inputs, constants, attributes, order=order)


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("overlap", [None, 0.0, 0.3, 1.0])
def test_the_rows_are_those_of_the_specification_in_its_order(bench, case, centred, overlap):
    bench.agrees(suppression(case, overlap=overlap, center_point_box=centred))
    bench.agrees(suppression(case, ("N", 4, 4), overlap=overlap, center_point_box=centred))


@pytest.mark.parametrize(("limit", "least"), [(100, None), (2**62, 0.5), (3, 2.0), (0, None), (None, None)])
def test_limits_and_thresholds(bench, case, limit, least):
    bench.agrees(suppression(case, limit=limit, least=least))


def test_every_axis_may_come_with_the_boxes(bench, case):
    bench.agrees(suppression(case, ("N", "C", "K")))


def test_no_boxes_make_no_rows(bench, case):
    import tensorflow as tf

    lowered = bench.lowered(suppression(case, ("N", "C", "K")))
    for batch, classes, count in ((0, 2, 3), (2, 0, 3), (2, 2, 0)):
        feeds = [tf.zeros([batch, count, 4]), tf.zeros([batch, classes, count])]
        assert lowered.module.serve(*feeds)[lowered.outputs[0]].shape == (0, 3)


@pytest.mark.parametrize(("overlap", "least", "centred"), [(0.3, 0.2, 0), (1.0, None, 0), (0.0, 0.2, 1)])
def test_tflite_has_the_same_rows(bench, case, overlap, least, centred):
    bench.agrees_in_tflite(suppression(case, overlap=overlap, least=least, center_point_box=centred))


def test_an_overlap_of_just_the_threshold_is_kept_in_tflite_too(bench, case):
    """Halves of one box overlap it by 0.5 exactly; and one box has no area."""
    exact = np.array([[[0, 0, 2, 2], [0, 0, 2, 1], [0, 0, 1, 2], [0, 0, 2, 2], [1, 1, 1, 1]]], np.float32)
    made = suppression(case, (1, 1, 5), overlap=0.5, least=None)
    made.inputs["boxes"] = ((1, 5, 4), lambda rng, shape: exact)
    bench.agrees(made)
    bench.agrees_in_tflite(made)


def regions(rng, shape):
    """Left, top, right, bottom; some beyond the image, some without an area."""
    start = rng.uniform(-2, 12, (*shape[:-1], 2))
    return np.concatenate([start, start + rng.uniform(0, 12, start.shape)], -1).astype(np.float32)


def aligned(case, image, opset=16, **attributes):
    inputs = {"x": image, "rois": (("R", 4), regions), "images": (("R",), lambda rng, shape: np.zeros(shape, np.int64))}
    sizes = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5}
    return case("RoiAlign", inputs, attributes=sizes | attributes, opset=opset)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2, 5])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_regions_are_aligned(bench, case, mode, ratio, coordinates):
    how = {"mode": mode, "sampling_ratio": ratio, "coordinate_transformation_mode": coordinates}
    bench.agrees_both_ways(lambda s: aligned(case, s("NCHW"), **how), atol=1e-4)


def test_regions_of_opset_10_are_not_shifted(bench, case):
    bench.agrees(aligned(case, ("N", 3, "H", "W"), opset=10, sampling_ratio=2), atol=1e-4)


@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_are_aligned_in_tflite(bench, case, ratio):
    bench.agrees_in_tflite(aligned(case, ("N", 3, 7, 6), sampling_ratio=ratio), atol=1e-4)


def test_each_region_is_of_its_own_image(bench, case):
    made = aligned(case, ("N", 2, 5, 6), sampling_ratio=2)
    made.inputs["images"] = (("R",), lambda rng, shape: np.arange(shape[0])[::-1].copy())
    bench.agrees(made, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_the_largest_of_regions_of_whole_pixels(bench, case, scale):
    def with_images(rng, shape):
        return np.concatenate([np.zeros((shape[0], 1)), regions(rng, (shape[0], 4))], 1).astype(np.float32)

    bench.agrees_both_ways(
        lambda s: case(
            "MaxRoiPool",
            {"x": s("NCHW"), "rois": (("R", 5), with_images)},
            attributes={"pooled_shape": [3, 2], "spatial_scale": scale},
        )
    )


@pytest.mark.parametrize("shape", [(3, 3), ("N", 4, 4), (2, "N", 1, 1), ("N", 0, 0)])
def test_determinants(bench, case, shape):
    import tensorflow as tf

    x = np.random.default_rng(0).standard_normal([3 if each == "N" else each for each in shape]).astype(np.float32)
    lowered = bench.lowered(case("Det", {"x": shape}))
    np.testing.assert_allclose(lowered.module.serve(tf.constant(x))[lowered.outputs[0]].numpy(), np.linalg.det(x), 1e-4)


def test_determinants_in_tflite(bench, case):
    """One of the matrices needs another row first, one has no inverse."""
    special = np.array([[[0, 1, 2], [3, 0, 1], [1, 1, 0]], [[1, 2, 3], [2, 4, 6], [0, 1, 1]]], np.float32)

    def matrices(rng, shape):
        return np.concatenate([special, rng.standard_normal(shape).astype(np.float32)])[: shape[0]]

    bench.agrees_in_tflite(case("Det", {"x": (("N", 3, 3), matrices)}), atol=1e-5)


def test_one_class_of_one_image_is_chosen_in_one_loop(bench):
    """TensorFlow's calibrator of int8 ends its process at a loop around a loop."""
    from transload.converters.onnx_to_tf.kernels.dialects import TFLITE
    from transload.converters.onnx_to_tf.lower_model import lower

    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[1, n, 4] boxes, float[1, 1, n] scores) => (int64[m, 3] rows)
        <int64 most = {5}, float overlap = {0.3}> { rows = NonMaxSuppression(boxes, scores, most, overlap) }"""
    rng = np.random.default_rng(0)
    bench.model_agrees(
        text,
        *(
            {"boxes": rng.random((1, n, 4)).astype(np.float32), "scores": rng.random((1, 1, n)).astype(np.float32)}
            for n in (9, 1, 4)
        ),
    )
    made = lower(bench.folder / "model.onnx", TFLITE).module.serve.graph
    assert not any("While" in op.type for inner in made._functions.values() for op in inner.graph.get_operations())
