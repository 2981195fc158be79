"""Products, normalisations and reductions."""

import numpy as np
import pytest

ints = lambda *numbers: np.array(numbers, np.int64)  # noqa: E731


def weight(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def positive(*shape):
    return np.random.default_rng(7).uniform(0.5, 2, shape).astype(np.float32)


PRODUCTS = {
    "Gemm": lambda s, case: case("Gemm", {"x": s("NC")}, {"w": weight(s.C, s.M), "b": weight(s.M)}),
    "Gemm turned": lambda s, case: case(
        "Gemm", {"x": s("NC")}, {"w": weight(s.M, s.C), "b": weight(s.M)}, {"transB": 1, "alpha": 0.5, "beta": 2.0}
    ),
    "Gemm, left turned": lambda s, case: case("Gemm", {"x": s("CN")}, {"w": weight(s.C, s.M)}, {"transA": 1}),
    "Gemm, both computed": lambda s, case: case("Gemm", {"x": s("NC"), "w": s("MC")}, attributes={"transB": 1}),
    "Gemm, a bias that broadcasts": lambda s, case: case(
        "Gemm", {"x": s("NC")}, {"w": weight(s.C, s.M), "b": weight(1)}
    ),
    "MatMul": lambda s, case: case("MatMul", {"x": s("NCHW")}, {"w": weight(s.W, s.M)}),
    "MatMul in batches": lambda s, case: case("MatMul", {"x": s("NCHW"), "y": s("NCWM")}),
    "MatMul broadcasting": lambda s, case: case("MatMul", {"x": s("NCHW"), "y": s("WM")}),
    "MatMul by a vector": lambda s, case: case("MatMul", {"x": s("NCH")}, {"w": weight(s.H)}),
    "MatMul of a vector": lambda s, case: case("MatMul", {"y": s("NHW")}, {"v": weight(s.H)}, order=["v", "y"]),
    "Einsum": lambda s, case: case(
        "Einsum", {"x": s("NCH"), "y": s("NCW")}, attributes={"equation": "nch, ncw -> nhw"}
    ),
}

NORMS = {
    "BatchNormalization": lambda s, case: case(
        "BatchNormalization", {"x": s("NCHW")},
        {"s": weight(s.C), "b": weight(s.C), "m": weight(s.C), "v": positive(s.C)}, {"epsilon": 0.01, "momentum": 0.3},
    ),
    "BatchNormalization of rank 2": lambda s, case: case(
        "BatchNormalization", {"x": s("NC")}, {"s": weight(s.C), "b": weight(s.C), "m": weight(s.C), "v": positive(s.C)}
    ),
    "LayerNormalization": lambda s, case: case(
        "LayerNormalization", {"x": s("NHW")}, {"s": weight(s.W), "b": weight(s.W)}, {"epsilon": 0.01}
    ),
    "LayerNormalization of two axes": lambda s, case: case(
        "LayerNormalization", {"x": s("NCHW")}, {"s": weight(s.H, s.W)}, {"axis": -2}
    ),
    "InstanceNormalization": lambda s, case: case(
        "InstanceNormalization", {"x": s("NCHW")}, {"s": weight(s.C), "b": weight(s.C)}
    ),
    "GroupNormalization": lambda s, case: case(
        "GroupNormalization", {"x": s("NCHW")}, {"s": weight(s.C), "b": weight(s.C)}, {"num_groups": 2}, opset=21
    ),
    "GroupNormalization before 21": lambda s, case: case(
        "GroupNormalization", {"x": s("NCHW")}, {"s": weight(2), "b": weight(2)}, {"num_groups": 2}, opset=18
    ),
    "LpNormalization": lambda s, case: case("LpNormalization", {"x": s("NCH")}, attributes={"axis": 1, "p": 2}),
    "LpNormalization of order 1": lambda s, case: case("LpNormalization", {"x": s("NCH")}, attributes={"p": 1}),
    "MeanVarianceNormalization": lambda s, case: case("MeanVarianceNormalization", {"x": s("NCHW")}),
    "LRN": lambda s, case: case("LRN", {"x": s("NCHW")}, attributes={"size": 3, "alpha": 0.1, "bias": 2.0}),
    "Softmax": lambda s, case: case("Softmax", {"x": s("NCH")}, attributes={"axis": 1}),
    "Softmax before 13": lambda s, case: case("Softmax", {"x": s("NCH")}, attributes={"axis": 1}, opset=11),
    "LogSoftmax": lambda s, case: case("LogSoftmax", {"x": s("NCH")}),
    "Softmax of many axes": lambda s, case: case("Softmax", {"x": s("NCDHWK")}, attributes={"axis": 2}),
    "Softmax of many axes before 13": lambda s, case: case(
        "Softmax", {"x": s("NCDHWK")}, attributes={"axis": 5}, opset=11
    ),
    "LogSoftmax of many axes": lambda s, case: case("LogSoftmax", {"x": s("CDHNKW")}, attributes={"axis": 3}),
    "Hardmax": lambda s, case: case("Hardmax", {"x": s("NCH")}, attributes={"axis": 1}),
    "Hardmax before 13": lambda s, case: case("Hardmax", {"x": s("NCH")}, attributes={"axis": 1}, opset=11),
    "Hardmax of the last axis before 13": lambda s, case: case(
        "Hardmax", {"x": s("NCH")}, attributes={"axis": 2}, opset=12
    ),
}  # fmt: skip

POSITIVE = lambda rng, shape: rng.uniform(0.5, 2, shape).astype(np.float32)  # noqa: E731
REDUCTIONS = [
    "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum",
    "ReduceSumSquare",
]  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(bench, case, name):
    bench.agrees_both_ways(lambda s: PRODUCTS[name](s, case), rtol=1e-4)


@pytest.mark.parametrize("name", NORMS)
def test_normalisations(bench, case, name):
    bench.agrees_both_ways(lambda s: NORMS[name](s, case), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["Softmax of many axes", "LogSoftmax of many axes"])
def test_softmax_of_many_axes_in_tflite(bench, case, sizes, name):
    bench.agrees_in_tflite(NORMS[name](sizes, case), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_reductions(bench, case, op_type, keep):
    for axes in ([1], [2, 3], [-1, 0]):
        bench.agrees_both_ways(
            lambda s, axes=axes: case(op_type, {"x": s("NCHW")}, {"a": ints(*axes)}, {"keepdims": keep}), rtol=1e-4
        )
        if op_type != "ReduceSum":
            bench.agrees_both_ways(
                lambda s, axes=axes: case(
                    op_type, {"x": s("NCHW")}, attributes={"axes": axes, "keepdims": keep}, opset=13
                ),
                rtol=1e-4,
            )


@pytest.mark.parametrize("keep", [0, 1])
def test_reductions_of_seven_axes_in_both_dialects(bench, case, sizes, keep):
    """XNNPACK takes six, and ends with the interpreter at seven."""
    made = lambda s, op_type, axes: case(op_type, {"x": s("NCDHWKM")}, {"a": ints(*axes)}, {"keepdims": keep})  # noqa: E731
    for op_type, axes in (("ReduceSum", [2, 5, 6]), ("ReduceMax", [0, 3])):
        bench.agrees_both_ways(lambda s, op_type=op_type, axes=axes: made(s, op_type, axes), rtol=1e-4, atol=1e-4)
        bench.agrees_in_tflite(made(sizes, op_type, axes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_without_axes_all_are_reduced_unless_noop_is_set(bench, case, op_type):
    empty = {"a": np.zeros(0, np.int64)}
    bench.agrees_both_ways(lambda s: case(op_type, {"x": s("NCH")}), rtol=1e-4)
    bench.agrees_both_ways(lambda s: case(op_type, {"x": s("NCH")}, empty), rtol=1e-4)
    if op_type in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
        bench.agrees_both_ways(lambda s: case(op_type, {"x": s("NCH")}, empty, {"noop_with_empty_axes": 1}))


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("attributes", [{}, {"axis": -1, "keepdims": 0}, {"axis": 1, "select_last_index": 1}])
def test_places_of_extremes(bench, case, op_type, attributes):
    ties = lambda rng, shape: rng.integers(0, 3, shape).astype(np.float32)  # noqa: E731
    bench.agrees_both_ways(lambda s: case(op_type, {"x": (s("NCH"), ties)}, attributes=attributes))


@pytest.mark.parametrize("attributes", [{}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}])
def test_running_sums(bench, case, attributes):
    bench.agrees_both_ways(lambda s: case("CumSum", {"x": s("NCH")}, {"a": np.array(-2, "i8")}, attributes))


def test_logarithms_of_sums(bench, case):
    bench.agrees_both_ways(lambda s: case("ReduceLogSum", {"x": (s("NCH"), POSITIVE)}, {"a": ints(1)}))


def test_determinants(bench, case):
    bench.agrees_both_ways(lambda s: case("Det", {"x": s("NHH")}), rtol=1e-3)


def test_a_number_in_a_matrix_may_be_added_to_a_gemm_with_a_bias(bench):
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[N, 2] x) => (float[N, 2] y)
        <float[2, 2] w = {1, 2, 3, 4}, float[2] b = {5, 6}, float[1, 1] more = {3}> {
        a = Gemm(x, w, b)
        y = Add(a, more)
    }"""
    bench.model_agrees(text, {"x": np.ones((3, 2), np.float32)})
