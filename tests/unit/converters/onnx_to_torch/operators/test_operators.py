"""Operators by themselves: static and with every axis dynamic, eager and exported, against onnx's reference."""

from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from ..conftest import close, numbers

X = numbers(2, 3, 5, 7)
ROWS = numbers(4, 6)


def ints(*numbers_):
    return np.array(numbers_, np.int64)


UNARY: dict[str, dict[str, Any]] = {
    "Relu": {}, "Sigmoid": {}, "Erf": {}, "Gelu": {"approximate": "tanh"}, "HardSwish": {}, "Mish": {}, "Softplus": {},
    "LeakyRelu": {"alpha": 0.3}, "Elu": {"alpha": 0.7}, "Selu": {}, "Celu": {"alpha": 0.7}, "Shrink": {"bias": 0.2},
    "HardSigmoid": {"alpha": 0.3}, "ThresholdedRelu": {"alpha": 0.2}, "Round": {}, "Sign": {}, "Neg": {},
    "Softmax": {"axis": 1}, "LogSoftmax": {"axis": -1}, "Hardmax": {"axis": 1}, "Flatten": {"axis": 2},
    "Transpose": {"perm": [2, 0, 3, 1]}, "ArgMax": {"axis": 1, "keepdims": 0},
    "ArgMin": {"axis": 2, "select_last_index": 1}, "Softsign": {},
    "GlobalAveragePool": {}, "LpNormalization": {"axis": 1, "p": 2}, "Shape": {"start": 1}, "Size": {},
    "ReduceMean": {"keepdims": 0}, "Identity": {}, "LRN": {"size": 3}, "MeanVarianceNormalization": {},
    "Trilu": {"upper": 0}, "IsNaN": {}, "Cast": {"to": TensorProto.FLOAT16},
}  # fmt: skip


@pytest.mark.parametrize("op_type", UNARY)
def test_functions_of_one_value(bench, op_type):
    bench.agrees(op_type, X, **UNARY[op_type])


def test_what_is_no_number_stays_so(bench):
    odd = np.array([[np.nan, -np.inf], [np.inf, -0.5]], np.float32)
    for op_type in ("Relu", "Sign", "Abs", "IsNaN"):
        bench.agrees(op_type, odd)
    bench.agrees("Max", odd, np.zeros_like(odd))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_whole_numbers_divide_towards_zero_and_leave_the_divisors_sign(bench, dtype):
    a, b = np.array([7, -7, 7, -7], dtype), np.array([2, 2, -2, -2], dtype)
    bench.agrees("Div", a, b)
    bench.agrees("Mod", a, b)
    bench.agrees("Mod", a, b, fmod=1)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("op_type", ["Add", "Mul", "Sub", "Div", "Pow"])
def test_a_number_that_the_model_holds_is_a_literal(bench, op_type, dtype):
    bench.agrees(op_type, np.abs(numbers(2, 3, dtype=dtype)) + 1, constants={1: np.array(0.3, dtype)})


def test_a_scalar_that_adds_axes_adds_them(bench):
    bench.agrees("Add", numbers(3), constants={1: np.full((1, 1), 0.5, np.float32)})


@pytest.mark.parametrize(
    ("keep", "axes"), [(1, ints(1, -1)), (0, ints(2)), (0, ints(-1, 0)), (1, ints())], ids=["two", "one", "far", "none"]
)
@pytest.mark.parametrize(
    "op_type", ["ReduceSum", "ReduceMax", "ReduceL2", "ReduceProd", "ReduceLogSumExp", "ReduceMean"]
)
def test_reductions(bench, op_type, keep, axes):
    bench.agrees(op_type, X, constants={1: axes}, keepdims=keep)


def test_clip_with_one_bound_or_two(bench):
    bench.agrees("Clip", X, constants={1: np.float32(-0.5), 2: np.float32(0.5)})
    bench.agrees("Clip", X, None, np.array(0.1, np.float32))
    bench.agrees("Clip", X, np.array(0.7, np.float32), np.array(0.1, np.float32))


SHAPES = {
    "Reshape keeps": ("Reshape", X, {1: ints(0, -1, 7)}), "Reshape flat": ("Reshape", X, {1: ints(-1)}),
    "Expand": ("Expand", numbers(3, 1), {1: ints(2, 1, 4)}), "Tile": ("Tile", ROWS, {1: ints(2, 3)}),
    "Unsqueeze": ("Unsqueeze", ROWS, {1: ints(-1, 0)}), "Squeeze": ("Squeeze", numbers(1, 3, 1), {1: ints(0, -1)}),
    "Slice": ("Slice", X, {1: ints(1, -4), 2: ints(2**63 - 1, -1), 3: ints(1, -1)}),
    "Slice back": ("Slice", X, {1: ints(-1, 4), 2: ints(-(2**63), 0), 3: ints(1, 3), 4: ints(-1, -2)}),
    "Slice steps": ("Slice", X, {1: ints(0, 1), 2: ints(9, 5), 3: ints(3, 2), 4: ints(2, 3)}),
    "Gather": ("Gather", X, {1: np.array([[0, -1], [2, 1]])}), "Gather one": ("Gather", X, {1: np.array(-1)}),
    "GatherND": ("GatherND", ROWS, {1: np.array([[0, 1], [3, -1]])}),
    "GatherElements": ("GatherElements", ROWS, {1: np.array([[0, -1, 2]] * 4)}),
    "CumSum": ("CumSum", ROWS, {1: np.array(-1)}), "Pad": ("Pad", X, {1: ints(0, 1, 2, 0, 1, 0, 1, 3)}),
    "TopK": ("TopK", ROWS, {1: ints(3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_and_places(bench, name):
    op_type, x, constants = SHAPES[name]
    axis = {"axis": 1} if op_type in ("Gather", "GatherElements") else {}
    free = (1,) if name == "Squeeze" else (0,) if name in ("Expand", "Reshape keeps", "Slice back") else range(9)
    bench.agrees(op_type, x, constants=constants, outputs=2 if op_type == "TopK" else 1, free=free, **axis)


def test_places_of_32_bits_are_widened(bench):
    """Of what x[places] is, with such places, torch's exporter writes in a loop a GatherND that ONNX has not."""
    places = np.array([1, -1], np.int32)
    bench.agrees("Gather", X, places, axis=1)
    path = bench.model([helper.make_node("Gather", ["x", "at"], ["y"])], {"x": X, "at": places[0]}, ["y"])
    assert "x[at.long().reshape(1)]" in bench.written(path, {"x": X, "at": places[0]}).text


def test_of_an_empty_batch_nothing_is_taken():
    import torch

    from transload.converters.onnx_to_torch.helpers.gather_scatter import gather_places
    from transload.converters.onnx_to_torch.helpers.recurrent_layers import torch_outputs

    assert gather_places(torch.zeros(0, 4, 3), torch.zeros(0, 2, 1, dtype=torch.int64), 1).shape == (0, 2, 3)
    assert torch_outputs((torch.zeros(5, 0, 8),), 2)[0].shape == (5, 2, 0, 4)


def test_of_equals_the_first_is_taken(bench):
    ties = np.array([[1, 3, 3, 2, 3, 1, 1], [2, 2, 2, 5, 5, 0, 0]], np.float32)
    bench.agrees("TopK", ties, constants={1: ints(5)}, outputs=2)
    bench.agrees("TopK", ties, constants={1: ints(5)}, outputs=2, largest=0)
    bench.agrees("TopK", ties, outputs=2, k=5, opset=1)
    bench.agrees("ArgMax", ties, axis=1)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scattering(bench, reduction):
    data, updates = numbers(4, 5), numbers(2, 5, seed=1)
    places = np.array([[3, 1, 2, 0, -1]] * 2)
    bench.agrees("ScatterElements", data, places, updates, reduction=reduction, axis=1)
    volume, rows = numbers(4, 5, 3), numbers(2, 3)
    bench.agrees("ScatterND", volume, np.array([[3, 1], [0, 2]]), rows, reduction=reduction, free=(0,))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_padding_with_its_own_elements(bench, mode):
    bench.agrees("Pad", X, constants={1: ints(0, 0, 2, 1, 0, 0, 1, 3)}, mode=mode, free=(0, 1))
    bench.agrees("Pad", numbers(3, 4), constants={1: ints(2, 0, 1, 3)}, mode=mode)


CONVOLUTIONS = [
    {}, {"pads": [1, 2, 0, 1]}, {"strides": [2, 1], "pads": [1, 1, 1, 1]}, {"dilations": [1, 2]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, {"auto_pad": "SAME_LOWER"}, {"auto_pad": "VALID"},
]  # fmt: skip


@pytest.mark.parametrize("options", CONVOLUTIONS)
def test_convolutions(bench, options):
    constants = {1: numbers(4, 3, 3, 2), 2: numbers(4)}
    bench.agrees("Conv", X, constants=constants, free=(0, 2, 3), **options)


@pytest.mark.parametrize("options", [{}, {"strides": [2, 3]}, {"pads": [1, 0, 0, 1], "strides": [2, 2]},
                                     {"strides": [2, 2], "output_padding": [1, 1], "group": 1}])  # fmt: skip
def test_transposed_convolutions(bench, options):
    bench.agrees("ConvTranspose", X, constants={1: numbers(3, 4, 3, 2), 2: numbers(4)}, free=(0, 2, 3), **options)


POOLS = [
    {}, {"pads": [1, 0, 1, 0]}, {"strides": [2, 2]}, {"strides": [2, 2], "ceil_mode": 1},
    {"pads": [1, 1, 0, 0]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
]  # fmt: skip


@pytest.mark.parametrize("options", POOLS)
def test_pools_of_negative_numbers(bench, options):
    x = -np.abs(X) - 1
    bench.agrees("MaxPool", x, kernel_shape=[3, 2], free=(0, 2, 3), **options)
    if "auto_pad" not in options:
        for count in (0, 1):
            bench.agrees("AveragePool", x, kernel_shape=[3, 2], count_include_pad=count, free=(0, 2, 3), **options)


def test_what_a_pool_has_found_goes_back_to_its_place(bench):
    options: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["y", "places"], **options),
        helper.make_node("MaxUnpool", ["y", "places"], ["out"], **options),
        helper.make_node("Shape", ["out"], ["shape"]),
        helper.make_node("MaxUnpool", ["y", "places", "shape"], ["same"], **options),
    ]
    x = numbers(2, 3, 4, 6)
    path = bench.model(nodes, {"x": x}, ["out", "same"], dynamic=(0, 2))
    bench.same(path, {"x": x}, dynamic=(0, 2))


@pytest.mark.parametrize("options", [{}, {"transA": 1}, {"transB": 1}, {"alpha": 0.5, "beta": 2.0}])
def test_gemm(bench, options):
    a = numbers(5, 4) if "transA" in options else numbers(4, 5)
    b = numbers(6, 5) if "transB" in options else numbers(5, 6)
    bench.agrees("Gemm", a, constants={1: b, 2: numbers(6)}, free=(1,) if "transA" in options else (0,), **options)


def test_products(bench):
    bench.agrees("MatMul", numbers(2, 3, 4), constants={1: numbers(4, 5)}, free=(0, 1))
    bench.agrees("Einsum", numbers(2, 3, 4), numbers(2, 5, 4), equation="b i d, b j d -> b j i", free=(1,))


def test_normalisations(bench):
    scale, bias, positive = numbers(3), numbers(3, seed=1), np.abs(numbers(3)) + 0.5
    for more in ({}, {"opset": 7}, {"opset": 7, "spatial": 1}):
        bench.agrees(
            "BatchNormalization", X, constants={1: scale, 2: bias, 3: bias, 4: positive}, free=(0, 2, 3), **more
        )
    places = {at: np.abs(numbers(*X.shape[1:], seed=at)) + 0.5 for at in range(1, 5)}
    bench.agrees("BatchNormalization", X, constants=places, free=(0,), opset=7, spatial=0)
    bench.agrees("InstanceNormalization", X, constants={1: scale, 2: bias}, free=(0, 2, 3))
    bench.agrees("LayerNormalization", X, constants={1: numbers(7), 2: numbers(7, seed=1)}, free=(0, 1, 2))
    bench.agrees("LayerNormalization", X, constants={1: numbers(5, 7)}, axis=2, free=(0, 1))
    bench.agrees("GroupNormalization", numbers(2, 6, 5), constants={1: numbers(6), 2: numbers(6)}, num_groups=3,
                 opset=21, free=(0, 2))  # fmt: skip


@pytest.mark.parametrize("free", [(), (0, 2, 3), pytest.param((0, 1, 2, 3), marks=pytest.mark.slow)])
def test_blocks_move_between_channels_and_picture(bench, free):
    """TFLite's dilated convolutions have the batch for channels."""
    bench.agrees("DepthToSpace", numbers(2, 12, 3, 5), blocksize=2, free=free)
    bench.agrees("DepthToSpace", numbers(2, 12, 3, 5), blocksize=2, mode="CRD", free=free)
    bench.agrees("SpaceToDepth", numbers(2, 3, 4, 6), blocksize=2, free=free)


RESIZES = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, {"mode": "nearest"},
    {"mode": "linear"}, {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, {"mode": "cubic"},
    {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5}, {"mode": "linear", "antialias": 1},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
]  # fmt: skip


@pytest.mark.parametrize("options", RESIZES)
@pytest.mark.parametrize(
    "target", [(3, 4), *(pytest.param(each, marks=pytest.mark.slow) for each in ((8, 9), (10, 14)))]
)
def test_resizes(bench, options, target):
    bench.agrees("Resize", X, constants={3: ints(2, 3, *target)}, **options)
    bench.agrees("Resize", X, constants={2: np.array([1, 1, 2, 2], np.float32)}, free=(0,), **options)


def test_numbers_in_eight_bits(bench):
    scale, zero = np.array([0.1, 0.2, 0.3], np.float32), np.array([0, 5, 250], np.uint8)
    bench.agrees("QuantizeLinear", X, constants={1: scale, 2: zero}, axis=1, free=(0, 2))
    bench.agrees("DequantizeLinear", numbers(2, 3, 4, dtype="uint8"), constants={1: scale, 2: zero}, axis=1, free=(0,))
    bench.agrees("DynamicQuantizeLinear", X, outputs=3)


@pytest.mark.parametrize("dtype", ["int8", pytest.param("uint8", marks=pytest.mark.slow)])
def test_products_in_eight_bits(bench, dtype):
    """By one scale and zero point, and by one for each filter or column."""

    def eight(*shape):
        return numbers(*shape, dtype=dtype)

    one, zero = np.float32(0.02), np.array(5, dtype)
    x, filters, matrix = eight(2, 6, 5, 4), eight(4, 3, 3, 2), eight(7, 4)
    scales, zeros = np.array([0.1, 0.2, 0.05, 0.3], np.float32), np.array([0, 1, 2, 3], dtype)
    held = {
        1: one,
        2: zero,
        3: filters,
        4: scales,
        5: zeros * 0,
        6: np.float32(0.9),
        7: zero,
        8: np.arange(-2, 2, dtype=np.int32),
    }
    for bias in (8, 7):
        constants = {at: each for at, each in held.items() if at <= bias}
        bench.agrees("QLinearConv", x, constants=constants, free=(0, 2, 3), group=2, pads=[1, 0, 1, 1], strides=[2, 1])
    for several in (False, True):
        parts = {4: scales, 5: zeros} if several else {4: one, 5: zero}
        held = {1: one, 2: zero, 3: matrix, **parts, 6: np.float32(0.1), 7: zero}
        bench.agrees("QLinearMatMul", eight(2, 3, 7), constants=held, free=(0, 1))


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("window", [None, np.hanning(16).astype(np.float32)])
def test_short_transforms(bench, half, window):
    """Of a length that is dynamic, of frames that overlap; the signal ends inside of one."""
    held = {1: np.array(5), 3: np.array(16), **({} if window is None else {2: window})}
    for length in (64, 67):
        bench.agrees("STFT", numbers(2, length, 1), constants=held, onesided=half, free=(0, 1))
    if not half:
        bench.agrees("STFT", numbers(2, 40, 2), constants=held, onesided=0, free=(0, 1))


def test_short_transforms_are_as_long_as_their_window_or_the_signal(bench):
    bench.agrees("STFT", numbers(2, 40, 1), constants={1: np.array(3), 2: numbers(8)}, free=(0, 1))
    x = numbers(2, 16, 1)
    node = helper.make_node("STFT", ["x", "step"], ["y"])
    path = bench.model([node], {"x": x}, ["y"], constants={"step": np.array(3)}, dynamic=(0,))
    whole = np.fft.rfft(x[:, None, :, 0])  # ONNX Runtime wants a length
    bench.same(path, {"x": x}, dynamic=(0,), want=[np.stack([whole.real, whole.imag], -1).astype(np.float32)])


WAYS = [{}, {"onesided": 1}, {"inverse": 1}, {"inverse": 1, "onesided": 1}]


@pytest.mark.parametrize("options", WAYS, ids=["whole", "half", "back", "half back"])
def test_transforms_along_an_axis(bench, options):
    half, back = options.get("onesided", 0), options.get("inverse", 0)
    for last in (1 + back,) if half else (1, 2):
        x = numbers(2, 5, 3, last)
        reference(bench, x, {}, 20, (0, 2), **options)
        reference(bench, x, {1: np.array(7), 2: np.array(1)}, 20, (0, 1), **options)
        reference(bench, x, {1: np.array(3)}, 17, (0, 2), axis=-3, **options)


def reference(bench, x, constants, opset, free, **attributes):
    """Against onnx's own: ONNX Runtime refuses half of a spectrum on the way back, and agrees to 80 dB at most."""
    names = [f"in{at}" if at in (0, *constants) else "" for at in range(max([0, *constants]) + 1)]
    held = {f"in{at}": each for at, each in constants.items()}
    path = bench.model([helper.make_node("DFT", names, ["y"], **attributes)], {"in0": x}, ["y"], constants=held,
                       opset=opset, dynamic=free)  # fmt: skip
    want = ReferenceEvaluator(str(path)).run(None, {"in0": x})
    bench.same(path, {"in0": x}, dynamic=free, want=want)


def test_where_and_logic(bench):
    condition = numbers(2, 3) > 0
    bench.agrees("Where", condition, numbers(2, 3), constants={2: np.array(0.0, np.float32)})
    bench.agrees("And", condition, ~condition)
    bench.agrees("Not", condition)


def test_a_shape_that_the_model_computes_keeps_dynamic_axes(bench):
    """(B, T, 6) to (B, T * 2, 3) and back by the shape of the first."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "two"], ["front"]),
        helper.make_node("Mul", ["front", "factors"], ["doubled"]),
        helper.make_node("Concat", ["doubled", "three"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
        helper.make_node("Reshape", ["y", "shape"], ["back"]),
        helper.make_node("Cast", ["shape"], ["out"], to=TensorProto.INT32),
    ]
    held = {"zero": ints(0), "two": ints(2), "factors": ints(1, 2), "three": ints(3)}
    x = numbers(2, 5, 6)
    path = bench.model(nodes, {"x": x}, ["y", "back", "out"], constants=held, dynamic=(0, 1))
    bench.same(path, {"x": x}, dynamic=(0, 1))


@pytest.mark.parametrize("op_type", ["Max", "Min"])
def test_the_larger_and_the_smaller_of_two_shapes_keep_dynamic_axes(bench, op_type):
    nodes = [
        helper.make_node("Shape", ["x"], ["one"]),
        helper.make_node("Shape", ["y"], ["other"]),
        helper.make_node(op_type, ["one", "other"], ["target"]),
        helper.make_node("ReduceProd", ["target"], ["product"]),
        helper.make_node("Squeeze", ["product"], ["count"]),
        helper.make_node("Range", ["zero", "count", "step"], ["places"]),
        helper.make_node("Reshape", ["places", "target"], ["out"]),
    ]
    fed = {"x": numbers(4, 3), "y": numbers(2, 5)}
    held = {"zero": np.array(0), "step": np.array(1)}
    path = bench.model(nodes, fed, ["out"], constants=held, dynamic=(0, 1))
    bench.same(path, fed, dynamic=(0, 1))
    assert "item()" not in bench.written(path, fed).text, "a size read from a tensor is none that torch.export follows"


def test_the_specifications_body_stands_in(bench):
    query, key = numbers(2, 3, 4, 8), numbers(2, 3, 5, 8)
    bench.agrees("Attention", query, key, key, opset=23, free=(0,))


def test_a_sum_without_itself_is_taken_of_any_number_of_elements(bench):
    x = numbers(3, 5, 4)
    node = helper.make_node("CumSum", ["x", "axis"], ["y"], exclusive=1)
    path = bench.model([node], {"x": x}, ["y"], constants={"axis": np.array(1)}, dynamic=(1,))
    module = bench.module(path, {"x": x})
    with torch.no_grad():
        shapes = ({1: torch.export.Dim.DYNAMIC},)
        program = torch.export.export(module, (torch.from_numpy(x),), dynamic_shapes=shapes, strict=False).module()
    for count in (0, 1, 2, 5):
        close(module(torch.from_numpy(x[:, :count])), [np.cumsum(x[:, :count], 1) - x[:, :count]])
        if count:
            close(program(torch.from_numpy(x[:, :count])), [np.cumsum(x[:, :count], 1) - x[:, :count]])
