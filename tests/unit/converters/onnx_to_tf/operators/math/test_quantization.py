"""Quantised numbers: in and out of them, exact sums of products, and the operators of ONNX Runtime's quantiser."""

import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from transload.converters.onnx_to_tf.lower_model import lower
from transload.models.errors import Refused


def scales(*shape):
    return np.random.default_rng(3).uniform(0.01, 0.1, shape).astype(np.float32)


def zeros(dtype, *shape):
    return np.random.default_rng(4).integers(-5 if dtype.startswith("i") else 0, 9, shape).astype(dtype)


def of(dtype):
    info = np.iinfo(dtype)
    return lambda rng, shape: rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


INTO = {
    "one for the tensor": lambda s, case: case("QuantizeLinear", {"x": s("NCHW")}, {"s": scales(), "z": zeros("int8")}),
    "no zero point": lambda s, case: case("QuantizeLinear", {"x": s("NCH")}, {"s": scales()}),
    "by the channel": lambda s, case: case(
        "QuantizeLinear", {"x": s("NCHW")}, {"s": scales(s.C), "z": zeros("uint8", s.C)}
    ),
    "by the last axis": lambda s, case: case(
        "QuantizeLinear", {"x": s("NCH")}, {"s": scales(s.H), "z": zeros("int8", s.H)}, {"axis": -1}
    ),
    "by the block": lambda s, case: case(
        "QuantizeLinear",
        {"x": s("KHC")},
        {"s": scales(s.K, -(-s.H // 3), s.C), "z": zeros("int8", s.K, -(-s.H // 3), s.C)},
        {"axis": 1, "block_size": 3},
        opset=21,
    ),
    "into 16 bits": lambda s, case: case(
        "QuantizeLinear", {"x": s("NCH")}, {"s": scales() / 1000, "z": zeros("uint16")}, opset=21
    ),
    "output_dtype": lambda s, case: case(
        "QuantizeLinear", {"x": s("NCH")}, {"s": scales()}, {"output_dtype": TensorProto.INT16}, opset=21
    ),
    "computed scale": lambda s, case: case(
        "QuantizeLinear", {"x": s("NCH"), "s": ((s.C,), lambda rng, shape: scales(*shape))}
    ),
    "the oldest wording": lambda s, case: case("QuantizeLinear", {"x": s("NCH")}, {"s": scales()}, opset=10),
}
OUT_OF = {
    "one for the tensor": lambda s, case: case(
        "DequantizeLinear", {"x": (s("NCHW"), of("uint8"))}, {"s": scales(), "z": zeros("uint8")}
    ),
    "by the channel": lambda s, case: case(
        "DequantizeLinear", {"x": (s("NCHW"), of("int8"))}, {"s": scales(s.C), "z": zeros("int8", s.C)}
    ),
    "by the block": lambda s, case: case(
        "DequantizeLinear",
        {"x": (s("KCH"), of("uint8"))},
        {"s": scales(s.K, s.C, -(-s.H // 3))},
        {"axis": 2, "block_size": 3},
        opset=21,
    ),
    "from int32": lambda s, case: case("DequantizeLinear", {"x": (s("NCH"), of("int32"))}, {"s": scales()}),
    "the widest difference": lambda s, case: case(
        "DequantizeLinear", {"x": (s("NCH"), of("uint16"))}, {"s": scales(), "z": np.array(65535, np.uint16)}, opset=21
    ),
    "into float16": lambda s, case: case(
        "DequantizeLinear", {"x": (s("NCH"), of("int8"))}, {"s": scales().astype(np.float16)}, opset=19
    ),
}
SUMS = {
    "MatMulInteger": lambda s, case: case(
        "MatMulInteger", {"a": (s("NHC"), of("uint8"))}, {"b": of("int8")(np.random.default_rng(0), (s.C, s.M)) // 2,
        "az": zeros("uint8"), "bz": zeros("int8")}, opset=20,
    ),
    "MatMulInteger by column": lambda s, case: case(
        "MatMulInteger", {"a": (s("NC"), of("uint8")), "b": ((s.C, s.M), of("uint8"))},
        {"az": zeros("uint8"), "bz": zeros("uint8", s.M)},
    ),
    "ConvInteger": lambda s, case: case(
        "ConvInteger", {"x": (s("NCHW"), of("uint8"))}, {"w": of("uint8")(np.random.default_rng(0), (s.M, s.C, 3, 3)),
        "xz": zeros("uint8")}, {"strides": [2, 1]},
    ),
    "DynamicQuantizeLinear": lambda s, case: case("DynamicQuantizeLinear", {"x": s("NCHW")}, outputs=3),
    "DynamicQuantizeLinear of nothing but zeros": lambda s, case: case(
        "DynamicQuantizeLinear", {"x": (s("NC"), lambda rng, shape: np.zeros(shape, np.float32))}, outputs=3
    ),
}  # fmt: skip
ALL = {f"{kind}: {name}": make for kind, table in (("into", INTO), ("out of", OUT_OF), ("sums", SUMS))
       for name, make in table.items()}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_agrees_with_onnx_runtime(bench, case, name):
    bench.agrees_both_ways(lambda s: ALL[name](s, case), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["into: by the channel", "out of: by the block", "sums: MatMulInteger"])
def test_agrees_in_tflite(bench, case, name):
    from ...conftest import DISTINCT, Sizes

    bench.agrees_in_tflite(ALL[name](Sizes(DISTINCT), case), rtol=1e-6)


def saved(folder, nodes, inputs, outputs, constants, *, opset=23):
    """`inputs`: arrays by name, whose first axis is dynamic. `outputs`: dtypes by name."""
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(each.dtype), ["N", *each.shape[1:]])
         for name, each in inputs.items()],
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(each)), None)
         for name, each in outputs.items()],
        [numpy_helper.from_array(each, name) for name, each in constants.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


def answers(path, feeds):
    import tensorflow as tf

    model = lower(path)
    made = model.module.serve(*[tf.constant(feeds[spec.name]) for spec in model.inputs])
    return [made[name].numpy() for name in model.outputs]


def test_a_quotient_near_a_midpoint_is_rounded_correctly(tmp_path):
    """x * (1 / scale), which TensorFlow's optimiser writes for a constant scale, is wrong for a fifth of these."""
    scale = np.array(0.0123, np.float32)
    middles = (np.arange(-5000, 5000, dtype=np.float32) + np.float32(0.5)) * scale
    x = np.concatenate([middles, np.nextafter(middles, np.float32(9)), np.nextafter(middles, np.float32(-9))])
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=TensorProto.INT16)
    (got,) = answers(saved(tmp_path, [node], {"x": x}, {"y": "int16"}, {"s": scale}), {"x": x})
    np.testing.assert_array_equal(got, np.rint(x / scale).astype(np.int16))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int4", "uint4"])
@pytest.mark.parametrize("known", [True, False])
def test_small_dtypes_go_in_and_out(tmp_path, dtype, known):
    x = np.linspace(-40, 40, 24, dtype=np.float32).reshape(4, 6)
    scale, zero = (
        np.array([0.5, 2, 3, 4, 5, 6], np.float32),
        np.arange(6).astype(dtype if "int" in dtype else "int8") * 0,
    )
    constants = {"s": scale, "z": zero.astype(dtype)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1),
    ]
    inputs = {"x": x} if known else {"x": x, "z": constants.pop("z")}
    path = saved(tmp_path, nodes, inputs, {"q": dtype, "y": "float32"}, constants)
    for got, want in zip(answers(path, inputs), ReferenceEvaluator(str(path)).run(None, inputs), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("dtype", ["float4_e2m1fn", "float8_e4m3fnuz", "int4"])
def test_weights_of_small_dtypes_and_scales_that_are_exponents(tmp_path, dtype):
    w = np.random.default_rng(0).uniform(-6, 6, (8, 3)).astype(dtype)
    exponents = np.exp2(np.arange(6) - 3.0).reshape(2, 3).astype("float8_e8m0fnu")
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "e"], ["d"], axis=0, block_size=4, output_dtype=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    x = np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)
    (got,) = answers(saved(tmp_path, nodes, {"x": x}, {"y": "float32"}, {"w": w, "e": exponents}, opset=24), {"x": x})
    want = x @ (w.astype(np.float32) * np.repeat(exponents.astype(np.float32), 4, 0))
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("scale", [np.float32(1e7), np.int32(3)])
def test_integers_are_quantised(tmp_path, scale):
    """By a float in its own precision, by an integer exactly."""
    x = of("int32")(np.random.default_rng(0), (999,)) // (1 if scale.dtype == np.float32 else 10**7)
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=TensorProto.INT8)
    (got,) = answers(saved(tmp_path, [node], {"x": x}, {"y": "int8"}, {"s": np.array(scale)}), {"x": x})
    exact = x.astype(scale.dtype) / scale
    np.testing.assert_array_equal(got, np.clip(np.rint(exact), -128, 127).astype(np.int8))


def test_the_division_has_the_precision_of_the_attribute(tmp_path):
    x = np.random.default_rng(0).uniform(-60, 60, (999,)).astype(np.float16)
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], precision=TensorProto.FLOAT, output_dtype=3)
    path = saved(tmp_path, [node], {"x": x}, {"y": "int8"}, {"s": np.array(0.4873, np.float16)})
    (got,) = answers(path, {"x": x})
    exact = np.rint(x.astype(np.float32) / np.float32(np.float16(0.4873))).astype(np.int8)
    assert (exact != np.rint(x / np.float16(0.4873)).astype(np.int8)).any()
    np.testing.assert_array_equal(got, exact)


def whole_range(dtype, *shape):
    """Mostly the ends of the range: sums far above 24 bits."""
    info = np.iinfo(dtype)
    return np.random.default_rng(len(shape)).choice([info.min, info.max, info.max], shape).astype(dtype)


@pytest.mark.parametrize("known", [True, False])
def test_sums_that_need_more_than_24_bits_are_exact(tmp_path, known):
    a, b = whole_range("uint8", 3, 5000), whole_range("uint8", 5000, 2)
    node = helper.make_node("MatMulInteger", ["a", "b"], ["y"])
    inputs, constants = ({"a": a}, {"b": b}) if known else ({"a": a, "b": b}, {})
    (got,) = answers(saved(tmp_path, [node], inputs, {"y": "int32"}, constants), {"a": a, "b": b})
    assert np.abs(got).max() > 1 << 26
    np.testing.assert_array_equal(got, a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("group", [1, 2])
def test_convolutions_that_need_more_than_24_bits_are_exact(tmp_path, group):
    x, w = whole_range("uint8", 2, 192, 6, 5), whole_range("uint8", 4, 192 // group, 5, 3)
    node = helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], group=group, pads=[1, 0, 2, 1])
    z = np.array(3, np.uint8)
    path = saved(tmp_path, [node], {"x": x}, {"y": "int32"}, {"w": w, "z": z})
    (got,) = answers(path, {"x": x})
    assert np.abs(got).max() > 1 << 24
    wide = helper.make_node("Conv", ["x", "w"], ["y"], group=group, pads=[1, 0, 2, 1])
    exact = saved(tmp_path, [wide], {"x": x.astype(np.float64)}, {"y": "float64"}, {"w": w.astype(np.float64)})
    (want,) = ReferenceEvaluator(str(exact)).run(None, {"x": x.astype(np.float64) - 3})
    np.testing.assert_array_equal(got, want)


def test_rows_and_columns_have_scales_of_their_own(tmp_path):
    a, b = whole_range("uint8", 4, 7), whole_range("int8", 7, 4)
    parts = {
        "as": scales(4), "az": zeros("uint8", 4), "b": b, "bs": scales(4)[::-1].copy(), "bz": zeros("int8", 4),
        "ys": np.array(3, np.float32), "yz": np.array(100, np.uint8),
    }  # fmt: skip
    node = helper.make_node("QLinearMatMul", ["a", *parts], ["y"])
    (got,) = answers(saved(tmp_path, [node], {"a": a}, {"y": "uint8"}, parts), {"a": a})
    product = (a.astype(int) - parts["az"][:, None]) @ (b.astype(int) - parts["bz"])
    ratio = parts["as"][:, None] * parts["bs"] / parts["ys"]
    np.testing.assert_array_equal(got, np.clip(np.rint(product * ratio) + 100, 0, 255))


REFUSALS = {
    "a scale that fits no axis": (
        helper.make_node("QuantizeLinear", ["x", "s"], ["y"], axis=5), {"s": scales(3)}, "along the axis 5 of 2"),
    "two dtypes": (
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], output_dtype=TensorProto.INT8),
        {"s": scales(), "z": zeros("uint8")}, "its output_dtype is int8 and its zero point uint8"),
    "channels last": (
        helper.make_node("QLinearGlobalAveragePool", ["q", "s", "z", "s", "z"], ["y"], domain="com.microsoft",
                         channels_last=1), {"s": scales(), "z": zeros("uint8"), "q": zeros("uint8", 1, 2, 3, 4)},
        "its attribute channels_last is set"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_unsupported_cases_are_refused_by_name(tmp_path, name):
    node, constants, message = REFUSALS[name]
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(Refused, match=message):
        lower(saved(tmp_path, [node], {"x": x}, {"y": "uint8"}, constants))


# What ONNX Runtime's quantiser makes


def weight(*shape):
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 0.3).astype(np.float32)


def small_cnn(folder):
    """One node of each kind that the quantiser has an operator for."""
    weights = {"w1": weight(8, 3, 3, 3), "b1": weight(8), "w2": weight(8, 1, 3, 3), "w3": weight(8, 8, 3, 3),
               "f": weight(16, 10), "g": weight(10)}  # fmt: skip
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]), make("Relu", ["c1"], ["r1"]),
        make("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], group=8), make("LeakyRelu", ["c2"], ["r2"], alpha=0.1),
        make("MaxPool", ["r2"], ["p2"], kernel_shape=[2, 2], strides=[2, 2]),
        make("Conv", ["p2", "w3"], ["c3"], pads=[1, 1, 1, 1]), make("Sigmoid", ["c3"], ["s3"]),
        make("Mul", ["c3", "s3"], ["m3"]), make("Add", ["m3", "p2"], ["a3"]),
        make("AveragePool", ["a3"], ["v3"], kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
        make("Concat", ["v3", "a3"], ["j"], axis=1), make("GlobalAveragePool", ["j"], ["h"]),
        make("Flatten", ["h"], ["flat"]), make("Gemm", ["flat", "f", "g"], ["logits"]),
        make("Softmax", ["logits"], ["y"], axis=-1),
    ]  # fmt: skip
    x = np.zeros((1, 3, 16, 12), np.float32)
    return saved(folder, nodes, {"x": x}, {"y": "float32", "logits": "float32"}, weights, opset=20), "x"


def small_transformer(folder):
    weights = {"table": weight(50, 16), "q": weight(16, 16), "k": weight(16, 16), "v": weight(16, 16),
               "up": weight(16, 32), "b": weight(32), "down": weight(32, 16)}  # fmt: skip
    make = helper.make_node
    nodes = [
        make("Gather", ["table", "ids"], ["e"]), *[make("MatMul", ["e", each], [f"e{each}"]) for each in "qkv"],
        make("Transpose", ["ek"], ["kt"], perm=[0, 2, 1]), make("MatMul", ["eq", "kt"], ["scores"]),
        make("Softmax", ["scores"], ["p"]), make("MatMul", ["p", "ev"], ["seen"]), make("Add", ["seen", "e"], ["r"]),
        make("MatMul", ["r", "up"], ["u"]), make("Add", ["u", "b"], ["ub"]), make("Relu", ["ub"], ["act"]),
        make("MatMul", ["act", "down"], ["y"]),
    ]  # fmt: skip
    ids = np.zeros((1, 7), np.int64)
    return saved(folder, nodes, {"ids": ids}, {"y": "float32"}, weights, opset=20), "ids"


def feeds_of(name, batch):
    rng = np.random.default_rng(batch)
    if name == "ids":
        return {"ids": rng.integers(0, 50, (batch, 7))}
    return {"x": rng.standard_normal((batch, 3, 16, 12)).astype(np.float32)}


def quantise(folder, how):
    """The path of a quantised model and the name of its input."""
    from onnxruntime import quantization as ort
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    logging.disable(logging.WARNING)
    out = folder / "quantised.onnx"
    model, name = (small_cnn if how.startswith("static") else small_transformer)(folder)
    if how.startswith("static"):

        class Reader(ort.CalibrationDataReader):
            feeds = iter([feeds_of(name, 4), feeds_of(name, 5)])

            def get_next(self):
                return next(self.feeds, None)

        _, form, dtype = how.split()
        signed = ort.QuantType.QInt8
        ort.quantize_static(
            model, out, Reader(), quant_format=ort.QuantFormat[form], activation_type=ort.QuantType[dtype],
            weight_type=signed, per_channel=dtype == "QInt8",
        )  # fmt: skip
    elif how == "dynamic":
        ort.quantize_dynamic(model, out, reduce_range=True)  # without VNNI, products of bytes saturate in 16 bits
    else:
        quantizer = MatMulNBitsQuantizer(onnx.load(model), block_size=16, is_symmetric="symmetric" in how)
        quantizer.process()
        quantizer.model.save_model_to_file(str(out))
    logging.disable(logging.NOTSET)
    return out, name


STATIC = ["static QDQ QUInt8", "static QDQ QInt8", "static QOperator QUInt8", "static QOperator QInt8"]


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize("how", [*STATIC, "dynamic", "4 bits", "4 bits symmetric"])
def test_a_model_of_onnx_runtimes_quantiser_agrees_with_onnx_runtime(tmp_path: Path, how):
    """As ONNX Runtime does where its optimiser fuses nothing: to the last integer, so to the last bits of a float."""
    import onnxruntime

    path, name = quantise(tmp_path, how)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for batch in (1, 3, 4):
        feeds = feeds_of(name, batch)
        for got, want in zip(answers(path, feeds), session.run(None, feeds), strict=True):
            assert np.std(want) > 0.01
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
