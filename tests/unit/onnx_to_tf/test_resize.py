"""Resize in every mode, to sizes and by scales, up and down."""

import numpy as np
import pytest

COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]

MODES = [(mode, each) for mode in ("nearest", "linear", "cubic") for each in COORDINATES]
MODES.remove(("cubic", "half_pixel_symmetric"))  # ONNX Runtime has it not


def resized(case, shape, sizes=None, scales=None, **attributes):
    constants = {}
    if scales is not None:
        constants["scales"] = np.array(scales, np.float32)
    if sizes is not None:
        constants["sizes"] = np.array(sizes, np.int64)
    order = ["x", "", "scales" if scales is not None else "", *(["sizes"] if sizes is not None else [])]
    return case("Resize", {"x": shape}, constants, attributes, order=order)


@pytest.mark.parametrize("scales", [(2, 2), (1.5, 0.6), (0.5, 1), (2.3, 3)])
@pytest.mark.parametrize(("mode", "coordinates"), MODES)
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


@pytest.mark.parametrize("nearest", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric"])
def test_every_kind_of_nearest(bench, case, nearest, coordinates):
    bench.agrees_both_ways(
        lambda s: resized(
            case, s("NCHW"), scales=(1, 1, 2, 0.4), coordinate_transformation_mode=coordinates, nearest_mode=nearest
        )
    )


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("sizes", [(3, 2), (14, 3)])
def test_antialiased(bench, case, mode, sizes):
    bench.agrees_both_ways(lambda s: resized(case, s("NCHW"), sizes, mode=mode, antialias=1, axes=[2, 3]), atol=1e-4)


def test_cubic_with_its_own_coefficient_and_nothing_from_outside(bench, case):
    bench.agrees_both_ways(
        lambda s: resized(case, s("NCHW"), scales=(1, 1, 2, 2), mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
        atol=1e-4,
    )


@pytest.mark.parametrize(("shape", "scales"), [("NCH", (1, 1, 2)), ("NCDHW", (1, 1, 2, 1.5, 2))])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_one_and_three_axes(bench, case, mode, shape, scales):
    bench.agrees_both_ways(lambda s: resized(case, s(shape), scales=scales, mode=mode), atol=1e-4)


@pytest.mark.parametrize(
    "attributes", [{"coordinate_transformation_mode": "tf_crop_and_resize"}, {"keep_aspect_ratio_policy": "not_larger"}]
)
def test_what_is_not_carried_is_named(bench, case, attributes):
    from transload.models.errors import Refused

    with pytest.raises(Refused, match=f"its attribute {next(iter(attributes))} is"):
        bench.lowered(resized(case, ("N", 3, 4, 4), (8, 8), axes=[2, 3], **attributes))
