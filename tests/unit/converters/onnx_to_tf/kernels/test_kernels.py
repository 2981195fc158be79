"""Equivalents of the kernels that TFLite lacks: they agree with TensorFlow's own."""

import numpy as np
import pytest

BETWEEN = lambda low, high: lambda rng, shape: rng.uniform(low, high, shape).astype(np.float32)  # noqa: E731
AMONG = lambda *numbers: lambda rng, shape: rng.choice(numbers, shape).astype(np.float32)  # noqa: E731
SMALL = lambda dtype, low, high: lambda rng, shape: rng.integers(low, high, shape).astype(dtype)  # noqa: E731
HALVES = lambda rng, shape: rng.standard_normal(shape).astype(np.float16)  # noqa: E731
SHAPE = ("N", 3, 7)


def DRAWN(dtype):  # noqa: N802  a maker of values, as those above
    info = np.iinfo(dtype)
    return lambda rng, shape: rng.integers(info.min, info.max, shape, dtype, endpoint=True)


# inputs near the edges of each function, where a formula that is not thought about loses every digit
FUNCTIONS = {
    "Acos": AMONG(-1, 1, 0, 0.999999, -0.5, 1e-6), "Acosh": AMONG(1, 1.0001, 2, 1e4, 1e20),
    "Asin": AMONG(-1, 1, 0, 0.999999, 1e-6), "Asinh": AMONG(0, 1e-6, -1e-3, 0.4, -3, 1e4, -1e20),
    "Atan": AMONG(0, 1e-6, -3, 1e20), "Atanh": AMONG(0, 1e-6, -0.999999, 0.4, 0.5),
    "Cosh": AMONG(0, 1e-3, -5, 80, -89), "Erf": BETWEEN(-5, 5), "Sinh": AMONG(0, 1e-6, -1e-3, 5, -80, 89),
    "Softplus": AMONG(-80, -5, 0, 5, 88.7, 1e10), "Tan": BETWEEN(-1.5, 1.5), "Mish": AMONG(-80, -5, 0, 5, 100),
    "IsInf": AMONG(np.inf, -np.inf, 3e38, 0, np.nan), "IsNaN": AMONG(np.inf, 3e38, 0, np.nan),
    "Round": AMONG(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.4), "Sign": AMONG(-2, 0, 3),
}  # fmt: skip


@pytest.mark.parametrize("op_type", FUNCTIONS)
def test_functions_of_floats_have_an_equivalent(bench, case, op_type):
    atol = 4e-7 if op_type == "Erf" else 1e-30
    bench.agrees_in_tflite(case(op_type, {"x": (SHAPE, FUNCTIONS[op_type])}), rtol=2e-5, atol=atol)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "int32", "int64"])
def test_integers_of_every_width_wrap_around(bench, case, dtype):
    whole = DRAWN(dtype)
    for op_type in ("Add", "Mul") if dtype in ("int32", "int64", "uint32") else ("BitwiseXor",):
        bench.agrees_in_tflite(case(op_type, {"a": (SHAPE, whole), "b": (("N", 1, 7), whole)}))
    for op_type in ("BitwiseAnd", "BitwiseOr"):
        bench.agrees_in_tflite(case(op_type, {"a": (SHAPE, whole), "b": (SHAPE, whole)}))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64"])
def test_integers_of_every_width_are_compared(bench, case, dtype):
    """TFLite's converter aborts on equal numbers of uint8, which it takes for quantised ones."""
    given = {"a": (SHAPE, SMALL(dtype, 0, 3)), "b": (SHAPE, SMALL(dtype, 0, 3))}
    for op_type in ("Equal", "Max", "LessOrEqual"):
        if op_type == "Equal" or dtype not in ("uint16", "int16"):
            bench.agrees_in_tflite(case(op_type, given))


def test_64_bits_are_divided_exactly(bench, case):
    def divisors(rng, shape):
        return np.where(rng.integers(0, 2, shape), DRAWN("int64")(rng, shape) | 1, rng.integers(1, 99, shape))

    bench.agrees_in_tflite(case("Div", {"a": (("N", 50), DRAWN("int64")), "b": (("N", 50), divisors)}))


@pytest.mark.parametrize(("op_type", "fmod"), [("Mod", 0), ("Mod", 1)])
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_remainders_have_their_sign(bench, case, op_type, fmod, dtype):
    given = {"a": (SHAPE, SMALL(dtype, -9, 9)), "b": (SHAPE, AMONG(-4, -3, 3, 5))}
    given["b"] = (SHAPE, lambda rng, shape: rng.choice([-4, -3, 3, 5], shape).astype(dtype))
    bench.agrees_in_tflite(case(op_type, given, attributes={"fmod": fmod}))


def test_powers_of_64_bits(bench, case):
    bench.agrees_in_tflite(
        case("Pow", {"a": (SHAPE, SMALL("int64", -9, 9)), "b": ((7,), SMALL("int64", 0, 19))}, opset=15)
    )


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int8", "int32", "uint64", "int64"])
def test_shifts_by_all_bits_or_a_negative_number_leave_the_sign(bench, case, direction, dtype):
    """ONNX Runtime does not know the wording of opset 28 that says so; numpy's shift by parts is held against it."""
    import tensorflow as tf

    from transload.converters.onnx_to_tf.kernels.dialects import TENSORFLOW, TFLITE

    bits = np.iinfo(dtype).bits
    numbers = DRAWN(dtype)(np.random.default_rng(0), (6,))
    for places in (0, 1, 7, bits // 2, bits // 2 + 1, bits - 1, bits, bits + 3, -1):
        left, far = direction == "LEFT", not 0 <= places < bits
        gone = [-1 if each < 0 and not left else 0 for each in numbers]
        wide = gone if far else [int(each) << places if left else int(each) >> places for each in numbers]
        want = np.array([each % 2**bits for each in wide], np.uint64).astype(f"uint{bits}").view(dtype)
        for kernels in (TENSORFLOW, TFLITE):
            got = kernels.shift_bits(tf.constant(numbers), tf.constant(places), left=left).numpy()
            assert got.tolist() == want.tolist(), (kernels.name, places)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_of_64_bits(bench, case, direction):
    """TFLite has nothing of uint64 but its bits, which is what torch's exporter makes of int64 here."""
    given = {"a": (SHAPE, DRAWN("uint64")), "b": ((7,), SMALL("uint64", 0, 63))}
    bench.agrees_in_tflite(case("BitShift", given, attributes={"direction": direction}))


@pytest.mark.parametrize(("dtype", "to"), [("int64", 13), ("uint64", 7), ("int32", 13)])
def test_integers_are_cast_to_uint64_and_back(bench, case, dtype, to):
    bench.agrees_in_tflite(case("Cast", {"a": (SHAPE, DRAWN(dtype))}, attributes={"to": to}))


@pytest.mark.parametrize("op_type", ["Add", "Sigmoid", "LayerNormalization"])
def test_floats_of_16_bits_are_rounded_once(bench, case, op_type):
    second = {"b": ((7,), HALVES)} if op_type != "Sigmoid" else {}
    bench.agrees_in_tflite(case(op_type, {"a": (SHAPE, HALVES), **second}), rtol=1e-3, atol=1e-3)


def test_integers_of_8_bits_are_moved_as_they_are(bench, case):
    bench.agrees_in_tflite(
        case("Concat", {"a": (SHAPE, DRAWN("int8")), "b": (SHAPE, DRAWN("int8"))}, attributes={"axis": 2})
    )
    bench.agrees_in_tflite(case("Transpose", {"a": (SHAPE, DRAWN("uint8"))}, attributes={"perm": [2, 0, 1]}))


@pytest.mark.parametrize(
    ("op_type", "maker"), [("Add", BETWEEN(-1, 1)), ("Less", BETWEEN(-1, 1)), ("Max", DRAWN("int64"))]
)
def test_six_axes_broadcast_both_ways(bench, case, op_type, maker):
    made = case(op_type, {"a": (("N", 3, 1, 5, 2, 1), maker), "b": ((1, 3, 4, 1, 2, 3), maker)})
    bench.agrees(made)
    bench.agrees_in_tflite(made)


def test_an_operator_without_a_function_is_lowered_by_its_specified_body(bench, case):
    made = case("HannWindow", {}, {"size": np.array(6)})
    want = 0.5 - 0.5 * np.cos(np.arange(6) * np.pi / 3)
    np.testing.assert_allclose(bench.lowered(made).module.serve()["y0"], want, atol=1e-6)


def test_a_constant_infinity_stays_one_in_tflite(bench, case):
    import numpy as np

    infinities = np.array([np.inf, -np.inf, 0.0, 1.0, -np.inf, np.inf, 2.0], np.float32)
    bench.agrees_in_tflite(case("Add", {"x": ("N", 3, 7)}, {"b": infinities}))
    bench.agrees_in_tflite(case("Max", {"x": ("N", 3, 7)}, {"b": np.float32(-np.inf)}))


def test_rows_of_any_rank_meet_a_matrix_without_a_reshape_in_tflite(bench, case):
    """A reshape to a computed shape before a loop made one interpreter in twenty wrong from its second call on. Which
    one depends on where memory lies: the reshape itself must not be there."""
    from ai_edge_litert.interpreter import Interpreter

    from ..conftest import flat_of

    weight = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float32)
    bench.agrees_in_tflite(case("MatMul", {"x": ("N", "N", 3, 7)}, {"w": weight}))
    operators = Interpreter(model_content=flat_of(bench.folder / "for_tflite"))._get_ops_details()
    assert {each["op_name"] for each in operators} == {"FULLY_CONNECTED"}


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_extremes_of_empty_narrow_integers_are_those_of_their_dtype(bench, case, dtype):
    none = ((2, "N"), lambda _rng, shape: np.zeros((*shape[:-1], 0), dtype))
    for name in ("ReduceMax", "ReduceMin"):
        operands = {"x": none}, {"axes": np.array([1], np.int64)}
        bench.agrees_with_reference(case(name, *operands, {"keepdims": 0}), in_tflite=True)
