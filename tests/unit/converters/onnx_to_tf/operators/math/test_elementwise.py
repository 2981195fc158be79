"""Arithmetic, comparison and activations."""

from typing import Any

import numpy as np
import pytest

BETWEEN = lambda low, high: lambda rng, shape: rng.uniform(low, high, shape).astype(np.float32)  # noqa: E731
INTEGERS = lambda dtype, low=-9, high=9: lambda rng, shape: rng.integers(low, high, shape).astype(dtype)  # noqa: E731
BOOLEANS = lambda rng, shape: rng.integers(0, 2, shape).astype(bool)  # noqa: E731
ODD = [-np.inf, -1, -0.5, 0.5, 1.5, 2.5, np.inf, np.nan]
SPECIAL = lambda rng, shape: rng.choice(ODD, shape).astype(np.float32)  # noqa: E731

UNARY: dict[str, dict[str, Any]] = {
    "Abs": {}, "Acos": {"of": BETWEEN(-1, 1)}, "Acosh": {"of": BETWEEN(1, 5)}, "Asin": {"of": BETWEEN(-1, 1)},
    "Asinh": {}, "Atan": {}, "Atanh": {"of": BETWEEN(-0.9, 0.9)}, "Ceil": {}, "Cos": {}, "Cosh": {},
    "Erf": {}, "Exp": {},
    "Floor": {}, "Log": {"of": BETWEEN(0.1, 5)}, "Neg": {}, "Reciprocal": {}, "Round": {"of": SPECIAL}, "Sign": {},
    "Sin": {}, "Sinh": {}, "Sqrt": {"of": BETWEEN(0, 5)}, "Tan": {}, "Relu": {"of": SPECIAL}, "Sigmoid": {}, "Tanh": {},
    "Softplus": {}, "Softsign": {}, "Mish": {}, "HardSwish": {"of": BETWEEN(-6, 6)},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.3}, "Elu": {"alpha": 0.7}, "Celu": {"alpha": 0.7}, "Selu": {},
    "ThresholdedRelu": {"alpha": 0.2}, "Shrink": {"bias": 0.2, "lambd": 0.4}, "Gelu": {"approximate": "tanh"},
    "IsNaN": {"of": SPECIAL}, "IsInf": {"of": SPECIAL, "detect_negative": 0}, "Identity": {}, "Not": {"of": BOOLEANS},
}  # fmt: skip


@pytest.mark.parametrize("op_type", UNARY)
def test_functions_of_one_value(bench, case, op_type):
    attributes = dict(UNARY[op_type])
    maker = attributes.pop("of", BETWEEN(-3, 3))
    bench.agrees_both_ways(lambda s: case(op_type, {"x": (s("NCHW"), maker)}, attributes=attributes), rtol=1e-4)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("LeakyRelu", {"alpha": 1.5}), ("Elu", {}), ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}), ("Gelu", {}),
        ("IsInf", {"detect_positive": 0}), ("IsInf", {"detect_positive": 0, "detect_negative": 0}),
    ],
)  # fmt: skip
def test_attributes_change_the_answer(bench, case, op_type, attributes):
    maker = SPECIAL if op_type == "IsInf" else BETWEEN(-3, 3)
    bench.agrees_both_ways(lambda s: case(op_type, {"x": (s("NCHW"), maker)}, attributes=attributes), rtol=1e-4)


LAYERS = {
    "Conv": ("float[N,2,h,w] x", "float[3,2,1,1] weight = {1, -2, 3, -4, 5, -6}", (2, 2, 3, 3)),
    "Gemm": ("float[N,2] x", "float[2,3] weight = {1, -2, 3, -4, 5, -6}", (3, 2)),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("relu", ["Relu(c)", "Clip(c, zero)"])
def test_a_relu_after_a_layer_keeps_nan(bench, layer, relu):
    """TensorFlow fuses the layer, its bias and tf.nn.relu into one kernel of oneDNN's, which makes 0 of NaN."""
    declared, weight, shape = LAYERS[layer]
    text = f"""<ir_version: 8, opset_import: ["" : 18]>
        net ({declared}) => (float[] y) <{weight}, float[3] bias = {{0.5, -0.5, 1}}, float zero = {{0}}>
        {{ c = {layer}(x, weight, bias) y = {relu} }}"""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[0, 1] = np.nan
    bench.model_agrees(text, {"x": x}, tflite=False)


BROADCASTS = ["NCHW NCHW", "NCHW CHW", "NCHW W", "W NCHW", "NCHW HW", "NC C", "NCD NCD"]


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "PRelu", "Greater"])
@pytest.mark.parametrize("shapes", BROADCASTS)
def test_two_values_broadcast(bench, case, op_type, shapes):
    left, right = shapes.split()
    if op_type == "PRelu" and len(right) > len(left):
        left, right = right, left
    bench.agrees_both_ways(lambda s: case(op_type, {"a": s(left), "b": s(right)}))


@pytest.mark.parametrize("shapes", ["NCHW CHW", "NCHW W", "NCHW"])
def test_a_constant_broadcasts(bench, case, shapes):
    left, _, right = shapes.partition(" ")
    bench.agrees_both_ways(
        lambda s: case("Mul", {"a": s(left)}, {"b": np.arange(np.prod(s(right)), dtype="f4").reshape(s(right)) + 1})
    )


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Max", "Equal", "Less"])
def test_integers(bench, case, op_type, dtype):
    bench.agrees_both_ways(
        lambda s: case(op_type, {"a": (s("NCH"), INTEGERS(dtype)), "b": (s("NCH"), INTEGERS(dtype, 1, 9))})
    )


@pytest.mark.parametrize(("maker", "fmod"), [(INTEGERS("int64"), 0), (INTEGERS("int64"), 1), (BETWEEN(-9, 9), 1)])
def test_the_remainder_has_the_sign_of_the_divisor_or_the_dividend(bench, case, maker, fmod):
    divisor = BETWEEN(1, 5) if maker(np.random.default_rng(0), (1,)).dtype == np.float32 else INTEGERS("int64", -5, -1)
    bench.agrees_both_ways(
        lambda s: case("Mod", {"a": (s("NCH"), maker), "b": (s("NCH"), divisor)}, attributes={"fmod": fmod})
    )


@pytest.mark.parametrize("exponent", [np.float32(2), np.float32(0.5), np.float32(-1.5), np.int64(3)])
def test_powers(bench, case, exponent):
    bench.agrees_both_ways(lambda s: case("Pow", {"a": (s("NCH"), BETWEEN(0.2, 3))}, {"b": np.array(exponent)}))


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 6.0), (0.0, None), (-0.5, 0.5), (None, 0.5), (None, None), (0.5, -0.5)]
)
def test_clip_takes_bounds_that_may_be_missing_or_crossed(bench, case, low, high):
    bounds = {name: np.float32(value).reshape(()) for name, value in (("l", low), ("h", high)) if value is not None}
    order = ["x", "l" if low is not None else "", "h" if high is not None else ""]
    bench.agrees_both_ways(lambda s: case("Clip", {"x": s("NCHW")}, bounds, order=order))


def test_clip_takes_a_bound_that_the_model_computes(bench, case):
    bench.agrees_both_ways(lambda s: case("Clip", {"x": s("NCH"), "l": ()}))


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor"])
def test_boolean_algebra(bench, case, op_type):
    bench.agrees_both_ways(lambda s: case(op_type, {"a": (s("NCH"), BOOLEANS), "b": (s("H"), BOOLEANS)}))


def test_where_broadcasts_three_values(bench, case):
    bench.agrees_both_ways(lambda s: case("Where", {"c": (s("NCH"), BOOLEANS), "a": s("H"), "b": s("NCH")}))


@pytest.mark.parametrize("number", [1, 6, 7, 9, 10, 11])  # float32 int32 int64 bool float16 float64
def test_casts(bench, case, number):
    bench.agrees_both_ways(lambda s: case("Cast", {"x": (s("NCH"), BETWEEN(-3, 3))}, attributes={"to": number}))


def test_the_remainder_of_floats_without_fmod_is_refused(bench, case):
    from transload.models.errors import Refused

    with pytest.raises(Refused, match="fmod=0 is defined for integers only"):
        bench.lowered(case("Mod", {"a": ("N", 3), "b": ("N", 3)}))


@pytest.mark.parametrize("op_type", ["GreaterOrEqual", "LessOrEqual"])
def test_comparisons_that_hold_where_equal(bench, case, op_type):
    bench.agrees_both_ways(
        lambda s: case(
            op_type, {"a": (s("NCH"), INTEGERS("float32", 0, 3)), "b": (s("NCH"), INTEGERS("float32", 0, 3))}
        )
    )


@pytest.mark.parametrize("op_type", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bits(bench, case, op_type):
    bench.agrees_both_ways(
        lambda s: case(op_type, {"a": (s("NCH"), INTEGERS("int32")), "b": (s("H"), INTEGERS("int32"))})
    )
    bench.agrees_both_ways(lambda s: case("BitwiseNot", {"a": (s("NCH"), INTEGERS("int32"))}))


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(bench, case, direction):
    bench.agrees_both_ways(
        lambda s: case(
            "BitShift",
            {"a": (s("NCH"), INTEGERS("uint32", 0, 99)), "b": (s("NCH"), INTEGERS("uint32", 0, 5))},
            attributes={"direction": direction},
        )
    )


def test_casts_to_the_dtype_of_another(bench, case):
    bench.agrees_both_ways(
        lambda s: case("CastLike", {"a": (s("NCH"), BETWEEN(-3, 3)), "b": (s("N"), INTEGERS("int32"))})
    )


@pytest.mark.parametrize(
    ("attribute", "value", "dtype"),
    [
        ("value_float", 1.5, "f4"),
        ("value_int", 3, "i8"),
        ("value_floats", [1.0, 2.5], "f4"),
        ("value_ints", [1, 2], "i8"),
    ],
)
def test_constants(bench, case, attribute, value, dtype):
    lowered = bench.lowered(case("Constant", {}, attributes={attribute: value}))
    got = lowered.module.serve()["y0"].numpy()
    assert got.dtype == np.dtype(dtype)
    assert got.tolist() == value


def test_dropout_does_nothing_in_inference(bench, case):
    bench.agrees_both_ways(lambda s: case("Dropout", {"x": s("NCH")}, {"r": np.float32(0.7)}, {"seed": 3}))


def test_dropout_in_training_is_refused(bench, case):
    from transload.models.errors import Refused

    made = case("Dropout", {"x": ("N", 3)}, {"r": np.float32(0.7), "t": np.array(True)})
    with pytest.raises(Refused, match="it was exported in training mode"):
        bench.lowered(made)


@pytest.mark.parametrize("numbers", [(0, 10, 3), (5, 0, -2), (3, 3, 1)])
def test_ranges(bench, case, numbers):
    import tensorflow as tf

    lowered = bench.lowered(
        case("Range", {name: ((), lambda rng, shape: np.array(0, "i8")) for name in ("first", "limit", "step")})
    )
    got = lowered.module.serve(*[tf.constant(each, tf.int64) for each in numbers])["y0"].numpy()
    assert got.tolist() == list(range(*numbers))


def test_swish_and_rms_normalisation_follow_the_specification(bench, case):
    """ONNX Runtime has neither in these wordings: the formulas are written out."""
    import tensorflow as tf

    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    scale = np.arange(1, 5, dtype=np.float32)
    swish = bench.lowered(case("Swish", {"x": ("N", 3, 4)}, attributes={"alpha": 0.7}, opset=24))
    norm = bench.lowered(case("RMSNormalization", {"x": ("N", 3, 4)}, {"s": scale}, {"epsilon": 0.1}, opset=23))
    root = np.sqrt(np.square(x).mean(-1, keepdims=True) + 0.1)
    np.testing.assert_allclose(swish.module.serve(tf.constant(x))["y0"], x / (1 + np.exp(-0.7 * x)), rtol=1e-5)
    np.testing.assert_allclose(norm.module.serve(tf.constant(x))["y0"], x / root * scale, rtol=1e-5)


def test_a_celu_may_have_a_negative_alpha(bench, case):
    bench.agrees(case("Celu", {"x": ("N", 4)}, attributes={"alpha": -1.5}))


@pytest.mark.parametrize(
    "nodes",
    ["q = Div(x, c) y = Floor(q)", "q = Div(x, c) y = Ceil(q)", "q = Div(x, c) s = Add(q, h) y = Floor(s)",
     "q = Div(x, c) p = Mul(q, h) m = Min(p, x) n = Neg(m) y = Floor(n)",
     "q = Div(x, c) i = Cast <to = 6> (q) y = Cast <to = 1> (i)"],
)  # fmt: skip
@pytest.mark.parametrize("divisor", [7.0, -0.3])
def test_a_rounded_quotient_is_no_product_with_the_reciprocal(bench, nodes, divisor):
    known = f"float c = {{{divisor}}}, float h = {{0.5}}"
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[N, 6] x) => (float[N, 6] y) <{known}> {{ {nodes} }}'
    x = np.arange(-300, 300, dtype=np.float32).reshape(100, 6) * np.float32(divisor)
    x[0] = [np.inf, -np.inf, 0, -0.0, 3e38, 1e-30]
    x = x[1:] if "Cast" in nodes else x
    bench.model_agrees(text, {"x": x}, rtol=0, atol=0)
