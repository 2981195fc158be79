"""Normalisations: every output, and the precision of their first stage."""

import numpy as np
import pytest


def weight(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def halves(rng, shape):
    return rng.standard_normal(shape).astype(np.float16)


def far_halves(rng, shape):
    """Numbers of 16 bits whose mean squares do not fit into 16 bits."""
    return (300 + 40 * rng.standard_normal(shape)).astype(np.float16)


CASES = {
    "LayerNormalization, all outputs": lambda s, case: case(
        "LayerNormalization", {"x": s("NHW")}, {"s": weight(s.W), "b": weight(s.W)}, outputs=3
    ),
    "LayerNormalization of all axes but the first": lambda s, case: case(
        "LayerNormalization", {"x": s("NHW")}, {"s": weight(s.H, s.W)}, {"axis": 1}, outputs=3
    ),
    "RMSNormalization": lambda s, case: case(
        "RMSNormalization", {"x": s("NHW")}, {"s": weight(s.H, s.W)}, {"axis": -2}, opset=23
    ),
    "InstanceNormalization of 16 bits": lambda s, case: case(
        "InstanceNormalization", {"x": (s("NCHW"), halves)},
        {"s": weight(s.C).astype(np.float16), "b": weight(s.C).astype(np.float16)},
    ),
    "GroupNormalization, groups in the middle": lambda s, case: case(
        "GroupNormalization", {"x": s("NCH")}, {"s": weight(s.C), "b": weight(s.C)}, {"num_groups": 2}, opset=21
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_normalisation_agrees_with_the_reference(bench, case, sizes, same_sizes, name):
    tolerance = 4e-3 if "16" in name else 2e-5
    for each in (sizes, same_sizes):
        bench.agrees_with_reference(CASES[name](each, case), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op_type", ["LayerNormalization", "RMSNormalization"])
def test_the_first_stage_of_16_bits_is_computed_in_32(bench, case, op_type):
    """In 16 bits the squares would be infinite, and the answers zero."""
    made = case(op_type, {"x": (("N", 5, 6), far_halves)}, {"s": np.ones(6, np.float16)}, opset=23)
    lowered = bench.lowered(made)
    x = far_halves(np.random.default_rng(3), (4, 5, 6))
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True) * (op_type == "LayerNormalization")
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(bench.in_tensorflow(lowered)({"x": x})["y0"], expected, rtol=2e-3, atol=1e-3)


def test_the_statistics_have_the_dtype_of_the_first_stage(bench, case):
    double = lambda rng, shape: rng.standard_normal(shape)  # noqa: E731
    made = case("LayerNormalization", {"x": (("N", 5), double)}, {"s": np.ones(5)}, {"stash_type": 1}, outputs=3)
    outputs = bench.lowered(made).module.serve.structured_outputs
    assert [outputs[name].dtype.name for name in ("y0", "y1", "y2")] == ["float64", "float32", "float32"]


@pytest.mark.parametrize("op_type", ["LayerNormalization", "RMSNormalization"])
def test_a_first_stage_in_integers_is_refused(bench, case, op_type):
    from transload.models.errors import Refused

    with pytest.raises(Refused, match="stash_type is int64"):
        bench.lowered(case(op_type, {"x": ("N", 5)}, {"s": weight(5)}, {"stash_type": 7}, opset=23))


@pytest.mark.parametrize("name", ["LayerNormalization, all outputs", "RMSNormalization"])
def test_a_normalisation_has_kernels_in_tflite(bench, case, sizes, name):
    bench.agrees_with_reference(CASES[name](sizes, case), rtol=2e-5, atol=2e-5, in_tflite=True)
