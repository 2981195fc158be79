"""Attention in its standard wording: masks, caches, grouped heads; held against ONNX Runtime, and against the
specification's reference where ONNX Runtime knows no such wording."""

import numpy as np
import pytest

WIDTH = 4


def booleans(rng, shape):
    """A mask with a row that hides everything."""
    seen = rng.integers(0, 2, shape).astype(bool)
    seen[..., 0, :] = False
    return seen


def lengths(rng, shape):
    return rng.integers(1, 6, shape)


def of(case, inputs, *, order=None, outputs=1, opset=24, **attributes):
    return case("Attention", inputs, {}, attributes, order, outputs, opset)


def four(s, heads=2, keys=2):
    return {"q": ("N", heads, s.H, WIDTH), "k": ("N", keys, s.W, WIDTH), "v": ("N", keys, s.W, s.D)}


CASES = {
    "plain": lambda s, case: of(case, four(s)),
    "three axes": lambda s, case: of(
        case, {"q": ("N", s.H, 8), "k": ("N", s.W, 8), "v": ("N", s.W, 6)}, q_num_heads=2, kv_num_heads=2
    ),
    "grouped heads": lambda s, case: of(case, four(s, heads=6, keys=2), scale=0.3),
    "causal": lambda s, case: of(case, four(s), is_causal=1),
    "a mask that hides whole rows": lambda s, case: of(
        case, {**four(s), "m": (("N", 1, s.H, s.W), booleans)}, is_causal=1
    ),
    "a mask that is added": lambda s, case: of(case, {**four(s, heads=4), "m": (s.H, s.W)}, softcap=2.0),
    "the past": lambda s, case: of(
        case,
        {**four(s), "pk": ("N", 2, 5, WIDTH), "pv": ("N", 2, 5, s.D)},
        order=["q", "k", "v", "", "pk", "pv"], outputs=3, is_causal=1,
    ),
    "valid keys": lambda s, case: of(
        case, {**four(s), "n": (("N",), lengths)}, order=["q", "k", "v", "", "", "", "n"], is_causal=1
    ),
    "a mask of fewer keys": lambda s, case: of(case, {**four(s), "m": (("N", 1, s.H, 2), booleans)}),
    "the weights": lambda s, case: of(
        case, four(s), outputs=["y", "", "", "w"], qk_matmul_output_mode=3, softmax_precision=1
    ),
    "the biased scores": lambda s, case: of(
        case, {**four(s), "m": (("N", 1, s.H, s.W), booleans)}, outputs=["y", "", "", "w"], qk_matmul_output_mode=2
    ),
    "a window": lambda s, case: of(case, four(s), opset=25, left_window_size=1, right_window_size=0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_attention_answers_as_the_reference_does(bench, case, sizes, same_sizes, name):
    for each in (sizes, same_sizes):
        bench.agrees_with_reference(CASES[name](each, case))


@pytest.mark.parametrize("name", ["grouped heads", "a mask that hides whole rows", "the past", "the biased scores"])
def test_attention_has_kernels_in_tflite(bench, case, sizes, name):
    bench.agrees_with_reference(CASES[name](sizes, case), in_tflite=True)


@pytest.mark.parametrize(
    ("inputs", "order", "attributes", "word"),
    [
        ({}, None, {"qk_matmul_output_mode": 4}, "qk_matmul_output_mode"),
        ({}, None, {"left_window_size": -2, "opset": 25}, "window"),
        ({}, None, {"softmax_precision": 7}, "softmax_precision"),
        ({"pk": ("N", 2, 5, WIDTH)}, ["q", "k", "v", "", "pk"], {}, "past_value"),
        ({"k": ("N", 3, 6, WIDTH), "v": ("N", 3, 6, 3)}, None, {}, "heads"),
    ],
)
def test_undefined_cases_are_refused_by_name(bench, case, sizes, inputs, order, attributes, word):  # noqa: PLR0917
    from transload.models.errors import Refused

    with pytest.raises(Refused, match=word):
        bench.lowered(of(case, {**four(sizes), **inputs}, order=order, **attributes))


ROTARY = {
    "halves": lambda s, case: case("RotaryEmbedding", {
        "x": ("N", 3, s.H, 8), "c": ("N", s.H, 4), "s": ("N", s.H, 4)}, opset=23),
    "interleaved, by positions": lambda s, case: case("RotaryEmbedding", {
        "x": ("N", s.H, 24), "c": (9, 4), "s": (9, 4), "p": (("N", s.H), lengths)},
        {}, {"num_heads": 3, "interleaved": 1}, opset=23),
    "a part": lambda s, case: case("RotaryEmbedding", {
        "x": ("N", 3, s.H, 8), "c": ("N", s.H, 2), "s": ("N", s.H, 2)}, {}, {"rotary_embedding_dim": 4}, opset=23),
}  # fmt: skip


@pytest.mark.parametrize("name", ROTARY)
def test_positions_turn_pairs_of_features(bench, case, sizes, same_sizes, name):
    for each in (sizes, same_sizes):
        bench.agrees_with_reference(ROTARY[name](each, case))


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_a_cache_is_written_from_the_place_of_each_sample(bench, case, mode):
    start = lambda rng, shape: rng.integers(0, 5 if mode == "linear" else 9, shape)  # noqa: E731
    made = case("TensorScatter", {"c": ("N", 3, 9, 2), "u": ("N", 3, 4, 2), "at": (("N",), start)}, {},
                {"mode": mode}, opset=24)  # fmt: skip
    bench.agrees_with_reference(made)
    bench.agrees_with_reference(made, in_tflite=True)


def test_attention_in_half_precision_rounds_once(bench, case):
    half = lambda rng, shape: rng.standard_normal(shape).astype(np.float16)  # noqa: E731
    made = of(case, dict.fromkeys("qkv", (("N", 2, 5, 4), half)))
    bench.agrees_with_reference(made, rtol=2e-3, atol=1e-3)
