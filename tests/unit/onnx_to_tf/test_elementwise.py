"""Arithmetic, comparison and activations."""

import numpy as np
import pytest

BETWEEN = lambda low, high: lambda rng, shape: rng.uniform(low, high, shape).astype(np.float32)  # noqa: E731
INTEGERS = lambda dtype, low=-9, high=9: lambda rng, shape: rng.integers(low, high, shape).astype(dtype)  # noqa: E731
BOOLEANS = lambda rng, shape: rng.integers(0, 2, shape).astype(bool)  # noqa: E731
ODD = [-np.inf, -1, -0.5, 0.5, 1.5, 2.5, np.inf, np.nan]
SPECIAL = lambda rng, shape: rng.choice(ODD, shape).astype(np.float32)  # noqa: E731

UNARY = {
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
