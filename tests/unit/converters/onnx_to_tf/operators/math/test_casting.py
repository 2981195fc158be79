"""Casts between every two dtypes that TensorFlow has, and the specification's tables of what small floats make of what
they cannot hold."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from transload.converters.onnx_to_tf.lower_model import lower
from transload.models.errors import Refused
from transload.models.signature import DTYPES, NARROW_DTYPES

INF, NAN = float("inf"), float("nan")
BEYOND = [0.0, -0.0, NAN, INF, -INF, 1e6, -1e6]


def number_of(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def lowered(folder, nodes, inputs, outputs, opset=25):
    """`inputs` and `outputs`: dtypes by name; every tensor is a vector of any length."""
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, number_of(dtype), ["N"]) for name, dtype in inputs.items()],
        [helper.make_tensor_value_info(name, number_of(dtype), None) for name, dtype in outputs.items()],
    )  # fmt: skip
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=13), path)
    return lower(path)


def answers(model, **feeds):
    import tensorflow as tf

    made = model.module.serve(*[tf.constant(feeds[spec.name]) for spec in model.inputs])
    return {name: tensor.numpy() for name, tensor in made.items()}


def same(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    signs = ~np.isnan(want.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(got.astype(float))[signs], np.signbit(want.astype(float))[signs])


def test_every_dtype_casts_to_every_other(tmp_path):
    dtypes = (*DTYPES, *NARROW_DTYPES)
    nodes = [helper.make_node("Cast", [f"from_{a}"], [f"{a}_to_{b}"], to=number_of(b)) for a in dtypes for b in dtypes]
    outputs = {f"{a}_to_{b}": b for a in dtypes for b in dtypes}
    feeds = {f"from_{dtype}": np.array([0, 1, 3, 7]).astype(dtype) for dtype in dtypes}
    got = answers(lowered(tmp_path, nodes, {f"from_{dtype}": dtype for dtype in dtypes}, outputs), **feeds)
    for name, dtype in outputs.items():
        same(got[name], feeds[f"from_{name.partition('_to_')[0]}"].astype(np.float32).astype(dtype))


def test_integers_that_do_not_fit_lose_their_higher_bits(tmp_path):
    given = np.array([200, -9, 7, 8, 300, -(2**40) - 3], np.int64)
    kinds = ("int8", "uint8", "int32", "uint16", "int4", "uint4")
    nodes = [helper.make_node("Cast", ["x"], [kind], to=number_of(kind)) for kind in kinds]
    got = answers(lowered(tmp_path, nodes, {"x": "int64"}, {kind: kind for kind in kinds}), x=given)
    for kind in kinds:
        bits = 4 if kind.endswith("int4") else np.dtype(kind).itemsize * 8
        low = given % (1 << bits)
        signed = np.where(low >= 1 << bits - 1, low - (1 << bits), low) if kind.startswith("int") else low
        assert got[kind].astype(np.int64).tolist() == signed.tolist(), kind


# Cast's two tables, by dtype: of BEYOND, saturating and not
TABLES = {
    "float8_e4m3fn": ([0.0, -0.0, NAN, 448, -448, 448, -448], [0.0, -0.0, NAN, NAN, NAN, NAN, NAN]),
    "float8_e4m3fnuz": ([0.0, 0.0, NAN, 240, -240, 240, -240], [0.0, 0.0, NAN, NAN, NAN, NAN, NAN]),
    "float8_e5m2": ([0.0, -0.0, NAN, 57344, -57344, 57344, -57344], [0.0, -0.0, NAN, INF, -INF, INF, -INF]),
    "float8_e5m2fnuz": ([0.0, 0.0, NAN, 57344, -57344, 57344, -57344], [0.0, 0.0, NAN, NAN, NAN, NAN, NAN]),
}


def there_and_back(folder, dtype, given, **attributes):
    """Through a dtype that need not be one of the model's inputs and outputs."""
    nodes = [
        helper.make_node("Cast", ["x"], ["small"], to=number_of(dtype), **attributes),
        helper.make_node("Cast", ["small"], ["y"], to=TensorProto.FLOAT),
    ]
    return answers(lowered(folder, nodes, {"x": given.dtype.name}, {"y": "float32"}), x=given)["y"]


@pytest.mark.parametrize("dtype", TABLES)
@pytest.mark.parametrize("saturate", [1, 0])
def test_numbers_beyond_an_8_bit_float_follow_the_specified_table(tmp_path, dtype, saturate):
    got = there_and_back(tmp_path, dtype, np.array(BEYOND, np.float32), saturate=saturate)
    same(got, np.array(TABLES[dtype][1 - saturate], np.float32))


def nearest(given, dtype):
    """Of the dtype's numbers the nearest, in the middle of two the one with the even code. ml_dtypes rounds float64
    twice, and so wrongly."""
    numbers = np.arange(128, dtype=np.uint8).view(dtype).astype(np.float64)  # rising with the code
    numbers = numbers[np.isfinite(numbers)]
    size = np.abs(given.astype(np.float64))
    above = np.minimum(np.searchsorted(numbers, size), len(numbers) - 1)
    below = np.maximum(above - 1, 0)
    up, down = numbers[above] - size, size - numbers[below]
    found = numbers[np.where((down < up) | ((down == up) & (below % 2 == 0)), below, above)]
    return np.where(np.signbit(given) & ((found != 0) | ("fnuz" not in dtype)), -found, found).astype(np.float32)


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("dtype", TABLES)
def test_every_half_becomes_the_nearest_8_bit_float(tmp_path, dtype, source):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    limit = float(ml_dtypes.finfo(dtype).max)
    given = halves[np.abs(halves) <= limit].astype(source)
    if source != "float16":  # and what lies beside the middle of two
        given = np.concatenate([given, np.nextafter(given, np.dtype(source).type(0))])
    same(there_and_back(tmp_path, dtype, given), nearest(given, dtype))


def test_4_bit_floats_have_neither_nan_nor_infinity(tmp_path):
    given = np.array([*BEYOND, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -5, -0.2, 5.5], np.float32)
    want = [0.0, -0.0, 6, 6, -6, 6, -6, 0, 1, 1, 2, 2, 4, 4, -4, -0.0, 6]  # onnx, docs: Float stored in 4 bits
    same(there_and_back(tmp_path, "float4_e2m1fn", given), np.array(want, np.float32))


def test_two_bits_are_read_in_twos_complement(tmp_path):
    given = np.array([-3, -2, -1, 0, 1, 2, 3], np.float32)
    assert there_and_back(tmp_path, "int2", given).tolist() == [1, -2, -1, 0, 1, -2, -1]
    assert there_and_back(tmp_path, "uint2", given).tolist() == [1, 2, 3, 0, 1, 2, 3]


def test_cast_like_takes_the_dtype_and_nothing_else(tmp_path):
    node = helper.make_node("CastLike", ["x", "like"], ["y"], saturate=0)
    model = lowered(tmp_path, [node], {"x": "float32", "like": "float8_e4m3fn"}, {"y": "float8_e4m3fn"})
    got = answers(model, x=np.array([1.1, 1000], np.float32), like=np.zeros(5, "float8_e4m3fn"))["y"]
    same(got, np.array([1.125, NAN]).astype("float8_e4m3fn"))


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
def test_operators_that_only_move_elements_keep_the_dtype(tmp_path, dtype):
    """Also where its tensor lies in another one; the constant too."""
    moved = np.arange(6).reshape(2, 3).astype(dtype)
    nodes = [
        helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(moved)),
        helper.make_node("Transpose", ["c"], ["known"]),
        helper.make_node("Unsqueeze", ["x", "known_axis"], ["row"]),
        helper.make_node("Constant", [], ["known_axis"], value_ints=[0]),
        helper.make_node("Transpose", ["row"], ["computed"]),
    ]
    nodes = [nodes[0], nodes[1], nodes[3], nodes[2], nodes[4]]
    got = answers(
        lowered(tmp_path, nodes, {"x": dtype}, {"known": dtype, "computed": dtype}), x=np.array([1, 2]).astype(dtype)
    )
    same(got["known"], moved.T)
    same(got["computed"], np.array([[1], [2]]).astype(dtype))


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("int16", "uint16"), ("float64", "uint64"), ("bool", "uint8"), ("float16", "bfloat16")],
)
def test_bits_are_reinterpreted(tmp_path, source, target):
    given = np.array([0, 1, 0, 1], bool) if source == "bool" else np.array([0, -1.5, 3, 1000]).astype(source)
    node = helper.make_node("BitCast", ["x"], ["y"], to=number_of(target))
    got = answers(lowered(tmp_path, [node], {"x": source}, {"y": target}, opset=26), x=given)["y"]
    assert got.dtype == target
    assert got.tobytes() == given.tobytes()


REFUSALS = {
    "an output that TensorFlow has no kernels for": (
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E4M3FNUZ)], "float32", "float8_e4m3fnuz",
        "the output y is float8_e4m3fnuz, which TensorFlow has no kernels for",
    ),
    "an input that TensorFlow has no kernels for": (
        [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], "int2", "float32",
        "the input x: dtype 'int2' is none of",
    ),
    "strings": (
        [helper.make_node("Cast", ["x"], ["s"], to=TensorProto.STRING),
         helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT)], "float32", "float32",
        "the dtype .* cannot be carried",
    ),
    "exponents": (
        [helper.make_node("Cast", ["x"], ["s"], to=TensorProto.FLOAT8E8M0),
         helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT)], "float32", "float32",
        "it casts to float8_e8m0fnu",
    ),
    "as many bits": (
        [helper.make_node("BitCast", ["x"], ["y"], to=TensorProto.INT16)], "float32", "int16",
        "it makes int16 of float32, which has not as many bits",
    ),
    "arithmetic on what only moves": (
        [helper.make_node("Add", ["x", "x"], ["y"])], "int4", "int4", "its input 0 is int4, and only",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_unsupported_cases_are_refused_by_name(tmp_path, name):
    nodes, source, target, message = REFUSALS[name]
    with pytest.raises(Refused, match=message):
        lowered(tmp_path, nodes, {"x": source}, {"y": target}, opset=26)


def test_a_branch_with_an_output_of_a_carried_dtype_is_refused(tmp_path):
    def branch(name):
        node = helper.make_node("Cast", ["x"], [name], to=TensorProto.INT4)
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, TensorProto.INT4, ["N"])])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["condition"], to=TensorProto.BOOL),
        helper.make_node("If", ["condition"], ["y"], name="either", then_branch=branch("a"), else_branch=branch("b")),
    ]
    with pytest.raises(Refused, match="If node 'either': a graph inside it makes a int4"):
        lowered(tmp_path, nodes, {"x": "float32"}, {"y": "int4"})
