"""Operators that ONNX Runtime's optimiser and its transformer tools emit, compared with ONNX Runtime."""

from dataclasses import replace

import numpy as np
import pytest

MICROSOFT = {"domain": "com.microsoft"}


def weight(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32) / 2


def whole(most):
    return lambda rng, shape: rng.integers(0, most, shape).astype(np.int32)


def places(rng, shape):
    return rng.integers(0, 12, shape)


def mask(rng, shape):
    """Of keys. The first is seen: of a query that sees none, sums near the large negative number are left."""
    seen = rng.integers(0, 2, shape).astype(np.int32)
    seen[:, 0] = 1
    return seen


def of(case, op_type, inputs, constants=None, *, order=None, outputs=1, **attributes):
    return case(op_type, inputs, constants or {}, {**MICROSOFT, **attributes}, order, outputs)


SIMPLE = {
    "Gelu": lambda s, case: of(case, "Gelu", {"x": s("NCH")}),
    "BiasGelu": lambda s, case: of(case, "BiasGelu", {"x": s("NCH")}, {"b": weight(s.H)}),
    "FastGelu": lambda s, case: of(case, "FastGelu", {"x": s("NCH")}),
    "FastGelu of a sum": lambda s, case: of(case, "FastGelu", {"x": s("NCH")}, {"b": weight(s.H)}),
    "QuickGelu": lambda s, case: of(case, "QuickGelu", {"x": s("NCH")}, alpha=1.3),
    "FusedMatMul": lambda s, case: of(case, "FusedMatMul", {"x": s("NCH"), "y": s("NCW")}, transA=1, alpha=0.25),
    "FusedMatMul, right turned": lambda s, case: of(
        case, "FusedMatMul", {"x": s("NCH")}, {"y": weight(s.W, s.H)}, transB=1
    ),
    "FusedGemm": lambda s, case: of(
        case, "FusedGemm", {"x": s("NC")}, {"w": weight(s.M, s.C), "b": weight(s.M)},
        transB=1, activation="LeakyRelu", activation_alpha=0.3,
    ),
    "FusedConv": lambda s, case: of(
        case, "FusedConv", {"x": s("NCHW")}, {"w": weight(s.M, s.C, 3, 3), "b": weight(s.M)},
        pads=[1, 1, 1, 1], activation="Clip", activation_params=[-0.5, 0.75],
    ),
    "FusedConv and what is added": lambda s, case: of(
        case, "FusedConv", {"x": s("NCHW"), "z": ("N", s.M, s.H, s.W)}, {"w": weight(s.M, s.C, 1, 1)},
        order=["x", "w", "", "z"], activation="Relu",
    ),
    "SkipLayerNormalization": lambda s, case: of(
        case, "SkipLayerNormalization", {"x": s("NHC"), "y": s("NHC")},
        {"g": weight(s.C), "b": weight(s.C), "d": weight(s.C)}, outputs=("y0", "", "", "y3"), epsilon=0.01,
    ),
    "SkipSimplifiedLayerNormalization": lambda s, case: of(
        case, "SkipSimplifiedLayerNormalization", {"x": s("NHC"), "y": s("NHC")},
        {"g": weight(s.C), "d": weight(s.C)}, outputs=("y0", "", "", "y3"), epsilon=0.01,
    ),
    "EmbedLayerNormalization": lambda s, case: of(
        case, "EmbedLayerNormalization",
        {"ids": (s("NH"), whole(9)), "segments": (s("NH"), whole(2)), "mask": (s("NH"), whole(2))},
        {"w": weight(9, s.C), "p": weight(12, s.C), "t": weight(2, s.C), "g": weight(s.C), "b": weight(s.C)},
        order=["ids", "segments", "w", "p", "t", "g", "b", "mask"], outputs=2, epsilon=0.01,
    ),
}  # fmt: skip

HEADS = {
    "MultiHeadAttention": lambda s, case: of(
        case, "MultiHeadAttention", {"q": ("N", s.H, 8), "k": ("N", s.W, 8), "v": ("N", s.W, 12)}, num_heads=2
    ),
    "MultiHeadAttention with bias, mask and scale": lambda s, case: of(
        case, "MultiHeadAttention",
        {"q": ("N", s.H, 8), "k": ("N", s.W, 8), "v": ("N", s.W, 8), "m": (("N", s.W), mask)},
        {"b": weight(24)}, order=["q", "k", "v", "b", "m"], num_heads=2, scale=0.3, mask_filter_value=-50.0,
    ),
    "MultiHeadAttention of the past, causal": lambda s, case: of(
        case, "MultiHeadAttention",
        {"q": ("N", s.H, 8), "k": ("N", s.H, 8), "v": ("N", s.H, 8), "pk": ("N", 2, s.W, 4), "pv": ("N", 2, s.W, 4)},
        order=["q", "k", "v", "", "", "", "pk", "pv"], outputs=3, num_heads=2, unidirectional=1,
    ),
    "Attention": lambda s, case: of(
        case, "Attention", {"x": ("N", s.H, 6)}, {"w": weight(6, 24), "b": weight(24)}, num_heads=2
    ),
    "Attention, masked, causal, with what is added": lambda s, case: of(
        case, "Attention",
        {"x": ("N", s.H, 6), "m": (("N", s.H), mask), "a": ("N", 2, s.H, s.H)},
        {"w": weight(6, 24), "b": weight(24)}, order=["x", "w", "b", "m", "", "a"], num_heads=2, unidirectional=1,
    ),
    "Attention with values of another width": lambda s, case: of(
        case, "Attention", {"x": ("N", s.H, 6)}, {"w": weight(6, 22), "b": weight(22)},
        num_heads=2, qkv_hidden_sizes=[8, 8, 6],
    ),
    "RotaryEmbedding": lambda s, case: of(
        case, "RotaryEmbedding", {"x": ("N", s.H, 16), "p": (("N", s.H), places)},
        {"c": weight(12, 4), "s": weight(12, 4)}, outputs=1,
    ),
    "RotaryEmbedding from one position, interleaved": lambda s, case: of(
        case, "RotaryEmbedding", {"x": ("N", 3, s.H, 8)},
        {"p": np.array([2]), "c": weight(12, 4), "s": weight(12, 4)}, interleaved=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SIMPLE, *HEADS])
def test_a_fused_operator_answers_as_onnx_runtime_does(bench, case, name):
    made = {**SIMPLE, **HEADS}[name]
    bench.agrees_both_ways(lambda s: made(s, case), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["FusedGemm", "SkipLayerNormalization", "Attention, masked, causal, with what is added"]
)
def test_a_fused_operator_has_kernels_in_tflite(bench, case, sizes, name):
    bench.agrees_in_tflite({**SIMPLE, **HEADS}[name](sizes, case), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "asked", "word"),
    [
        ("FusedMatMul", {"transBatchA": 1}, "transBatch"),
        ("FusedGemm", {"activation": "HardSigmoid"}, "HardSigmoid"),
        ("Attention", {"do_rotary": 1}, "rotary"),
        ("RotaryEmbedding", {"is_packed_batching": 1}, "packed"),
    ],
)
def test_unsupported_forms_of_a_fused_operator_are_refused_by_name(bench, case, sizes, name, asked, word):  # noqa: PLR0917
    from transload.models.errors import Refused

    made = {**SIMPLE, **HEADS}[name](sizes, case)
    with pytest.raises(Refused, match=word):
        bench.lowered(replace(made, attributes={**made.attributes, **asked}))


def test_keys_of_the_past_do_not_stand_in_for_its_values(bench, case, sizes):
    from transload.models.errors import Refused

    made = HEADS["MultiHeadAttention of the past, causal"](sizes, case)
    inputs = {name: each for name, each in made.inputs.items() if name != "pv"}
    with pytest.raises(Refused, match="only one of past_key and past_value is given"):
        bench.lowered(replace(made, inputs=inputs, order=made.order[:-1]))
