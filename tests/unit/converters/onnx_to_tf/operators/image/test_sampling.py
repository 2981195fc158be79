"""Images read at computed places, and pixels rearranged."""

from itertools import product
from typing import Any

import numpy as np
import pytest

PADDINGS = ["zeros", "border", "reflection"]


def places(low=-1.6, high=1.6):
    """Grid points, some of them beyond the border."""
    return lambda rng, shape: rng.uniform(low, high, shape).astype(np.float32)


def sampled(case, image, grid, *how, opset=20):
    mode, padding, corners = how
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    return case("GridSample", {"x": image, "grid": (grid, places())}, attributes=attributes, opset=opset)


@pytest.mark.parametrize(
    ("mode", "padding", "corners"), list(product(["linear", "nearest", "cubic"], PADDINGS, [0, 1]))
)
def test_images(bench, case, mode, padding, corners):
    bench.agrees_both_ways(
        lambda s: sampled(case, s("NCHW"), ("N", s.K, s.M, 2), mode, padding, corners), atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_the_names_of_opset_16(bench, case, mode):
    bench.agrees(sampled(case, ("N", 3, 5, 4), ("N", 2, 6, 2), mode, "zeros", 0, opset=16), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("mode", "padding", "corners"), list(product(["linear", "nearest"], PADDINGS, [0, 1])))
def test_volumes(bench, case, mode, padding, corners):
    bench.agrees_both_ways(
        lambda s: sampled(case, s("NCDHW"), ("N", s.K, s.M, 2, 3), mode, padding, corners), atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("padding", PADDINGS)
def test_every_axis_may_come_with_the_image(bench, case, padding):
    made = sampled(case, ("N", "C", "H", "W"), ("N", "h", "w", 2), "linear", padding, 0)
    bench.agrees(made, atol=1e-4, rtol=1e-4)


def test_a_pixel_beyond_the_border_does_not_count_even_where_it_is_infinite(bench, case):
    import tensorflow as tf

    lowered = bench.lowered(sampled(case, ("N", 1, 2, 2), ("N", 1, 1, 2), "linear", "zeros", 0))
    feeds = {"x": np.full((1, 1, 2, 2), np.inf, np.float32), "grid": np.full((1, 1, 1, 2), 9, np.float32)}
    got = lowered.module.serve(*[tf.constant(feeds[spec.name]) for spec in lowered.inputs])
    assert got[lowered.outputs[0]].numpy() == 0


def test_integers_are_read_and_not_interpolated(bench, case):
    from transload.models.errors import Refused

    def whole(mode):
        image = (("N", 2, 4, 3), lambda rng, shape: rng.integers(-9, 9, shape).astype(np.int32))
        return case("GridSample", {"x": image, "g": (("N", 2, 2, 2), places())}, attributes={"mode": mode})

    bench.lowered(whole("nearest"))
    with pytest.raises(Refused, match="it interpolates int32"):
        bench.lowered(whole("linear"))


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 5, 4), (2, 3, 4, 5, 6)])
def test_a_grid_of_a_matrix(bench, case, size, corners):
    import tensorflow as tf
    from onnx.reference import ReferenceEvaluator

    rank = len(size) - 2
    theta = np.random.default_rng(0).standard_normal((2, rank, rank + 1)).astype(np.float32)
    attributes = {"align_corners": corners}
    fixed = case("AffineGrid", {"t": ("N", rank, rank + 1)}, {"size": np.array(size)}, attributes)
    of_any = ((len(size),), lambda rng, shape: np.array(size))
    for made in (fixed, case("AffineGrid", {"t": ("N", rank, rank + 1), "size": of_any}, attributes=attributes)):
        lowered = bench.lowered(made)
        feeds = {name: given for name, given in (("t", theta), ("size", np.array(size))) if name in made.inputs}
        got = lowered.module.serve(*[tf.constant(feeds[spec.name]) for spec in lowered.inputs])
        want: Any
        (want,) = ReferenceEvaluator(str(bench.folder / "model.onnx")).run(None, feeds)
        np.testing.assert_allclose(got[lowered.outputs[0]].numpy(), want, 1e-5, 1e-5)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("shape", [("N", 12, 3, 5), ("N", 12, "H", "W"), ("N", 4, 4, 4)])
def test_depth_becomes_space(bench, case, mode, shape):
    bench.agrees(case("DepthToSpace", {"x": shape}, attributes={"blocksize": 2, "mode": mode}))


@pytest.mark.parametrize("shape", [("N", 3, 4, 6), ("N", 2, 4, 4)])
def test_space_becomes_depth(bench, case, shape):
    bench.agrees(case("SpaceToDepth", {"x": shape}, attributes={"blocksize": 2}))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("known", [True, False])
def test_space_and_depth_are_each_others_inverse(bench, case, mode, known):
    """Only the newest wording of SpaceToDepth has modes, which no runtime has yet; the depth may come too."""
    import tensorflow as tf

    def answer(op_type, x):
        shape = ("N", *x.shape[1:]) if known else ("N", "C", "H", "W")
        lowered = bench.lowered(case(op_type, {"x": shape}, attributes={"blocksize": 2, "mode": mode}, opset=28))
        return lowered.module.serve(tf.constant(x))[lowered.outputs[0]].numpy()

    x = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    deep = answer("SpaceToDepth", x)
    blocks = x.reshape(2, 3, 2, 2, 3, 2).transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    np.testing.assert_array_equal(deep, blocks.reshape(2, 12, 2, 3))
    np.testing.assert_array_equal(answer("DepthToSpace", deep), x)


@pytest.mark.parametrize("padding", PADDINGS)
def test_sampling_in_tflite(bench, case, padding):
    bench.agrees_in_tflite(sampled(case, ("N", 3, 7, 7), ("N", 5, 4, 2), "linear", padding, 1), atol=1e-4, rtol=1e-4)
