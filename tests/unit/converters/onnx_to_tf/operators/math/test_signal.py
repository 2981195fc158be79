"""Spectra, in TensorFlow's transform and in TFLite's matrices."""

import numpy as np
import pytest


def dft(case, letters, *, length=None, axis=-2, opset=20, **attributes):
    if opset < 20:
        attributes["axis"] = axis
    constants = {} if length is None else {"n": np.array(length)}
    if opset >= 20:
        constants["axis"] = np.array(axis)
    order = ["x", "n" if length is not None else "", *(["axis"] if opset >= 20 else [])]
    return case(
        "DFT", {"x": letters}, constants, attributes, order if order[1] or len(order) > 2 else ["x"], opset=opset
    )


CASES = {
    "of real numbers": lambda s, case: dft(case, ("N", s.H, 1)),
    "of complex numbers": lambda s, case: dft(case, ("N", s.H, s.W, 2), axis=1),
    "one side": lambda s, case: dft(case, ("N", s.H, 1), onesided=1),
    "cut": lambda s, case: dft(case, ("N", s.H, 2), length=3),
    "filled": lambda s, case: dft(case, ("N", s.H, 1), length=11, onesided=1),
    "along the batch": lambda s, case: dft(case, ("N", s.H, 2), axis=0),
    "inverse": lambda s, case: dft(case, ("N", s.H, 2), inverse=1),
    "as before opset 20": lambda s, case: dft(case, ("N", s.H, s.W, 2), opset=17, axis=2),
    "frames": lambda s, case: case("STFT", {"x": ("N", 4 * s.H, 1)}, {
        "step": np.array(3), "window": np.hanning(s.H).astype(np.float32)}, opset=17),
    "frames of complex numbers": lambda s, case: case(
        "STFT", {"x": ("N", 4 * s.H, 2)}, {"step": np.array(2), "length": np.array(5)}, {"onesided": 0},
        order=["x", "step", "", "length"], opset=17),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_transform_agrees_with_the_reference(bench, case, sizes, same_sizes, name):
    for each in (sizes, same_sizes):
        bench.agrees_with_reference(CASES[name](each, case), atol=1e-4)


@pytest.mark.parametrize("name", ["of complex numbers", "filled", "along the batch", "inverse", "frames"])
def test_a_transform_is_a_product_of_matrices_in_tflite(bench, case, sizes, name):
    bench.agrees_with_reference(CASES[name](sizes, case), atol=1e-4, in_tflite=True)


@pytest.mark.parametrize("length", [None, 7, 8])
@pytest.mark.parametrize("in_tflite", [False, True])
def test_half_of_a_spectrum_becomes_real_again(bench, case, length, in_tflite):
    """Against numpy: of the numbers that count once, the imaginary parts mean nothing."""
    from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW, TFLITE

    lowered = bench.lowered(
        dft(case, ("N", 5, 2), length=length, inverse=1, onesided=1), [TENSORFLOW, TFLITE][in_tflite]
    )
    answer = bench.in_tflite(lowered) if in_tflite else bench.in_tensorflow(lowered)
    x = np.random.default_rng(1).standard_normal((3, 5, 2)).astype(np.float32)
    expected = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length or 8, axis=1)[..., None]
    np.testing.assert_allclose(answer({"x": x})["y0"], expected, atol=1e-6)


def test_undefined_cases_are_refused_by_name(bench, case):
    from transload.models.errors import Refused

    with pytest.raises(Refused, match="onesided"):
        bench.lowered(dft(case, ("N", 5, 2), onesided=1))
    with pytest.raises(Refused, match="axis"):
        bench.lowered(dft(case, ("N", 5, 2), axis=-1))


@pytest.mark.parametrize("bins", [8, 40])
def test_a_mel_matrix_agrees_with_the_reference(bench, case, bins):
    fixed = {"length": np.array(64), "rate": np.array(8000), "low": np.float32(0), "high": np.float32(4000)}
    made = case("MelWeightMatrix", {"n": ((), lambda rng, shape: np.array(bins))}, fixed, opset=17)
    bench.agrees_with_reference(made)


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_a_window_agrees_with_the_reference(bench, case, op_type, periodic):
    made = case(op_type, {"n": ((), lambda rng, shape: np.array(9))}, {}, {"periodic": periodic}, opset=17)
    bench.agrees_with_reference(made, atol=1e-6)
