"""Arithmetic on quantised numbers: exact where it is a sum of products, and by float32 where it is a function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .....models.signature import Array
from ....onnx_graph.semantics.window_attributes import kernel_sizes
from ...common.integer_products import Integers, convolve_integers, multiply_matrices, subtract_zero_point
from ...common.windows import read_window
from ...kernels.exact_quotients import divide_exactly
from ...lazy_tensorflow import tf
from ...lowerings import BOOL, MICROSOFT, lowers
from ...operator_context import OperatorContext
from ...values import Layout, TfTensor, Value, broadcast, computed, known, map_elements
from ..layers.normalization import softmax
from ..layers.pooling import average_pool, global_pool
from ..layers.recurrent import DirectionWeights, biases, read_layer, run_lstm
from ..tensor.joining import concat
from .activation import leaky_relu
from .linear import matmul
from .quantization import EIGHT_BITS, add_zero_point, dequantize, quantize, quantize_dynamically, reshape_parameter

_SUMS = frozenset({"int32"})
_SCALES = frozenset({"float16", "bfloat16", "float32"})
_MIXED = EIGHT_BITS | _SUMS | _SCALES  # for operators whose type variables onnx does not define


@lowers("ConvInteger", since=10, T1=EIGHT_BITS, T2=EIGHT_BITS)
def conv_integer(op: OperatorContext) -> Value:
    """Lower ConvInteger: a convolution of numbers minus their zero points, as int32."""
    return computed(_convolve(op, op.value(0), op.optional(2), op.value(1), op.optional(3)), Layout.CHANNELS_LAST)


@lowers("QLinearConv", since=10, T1=EIGHT_BITS, T2=EIGHT_BITS, T3=EIGHT_BITS, T4=_SUMS)
def qlinear_conv(op: OperatorContext) -> Value:
    """Lower QLinearConv: a convolution, brought from the scale of its products to the one of the result."""
    sums = _convolve(op, op.value(0), op.value(2), op.value(3), op.value(5))
    bias = op.optional(8)
    sums = sums if bias is None else sums + bias.tensor()
    scale = _scale_ratio(
        single_number(op, op.value(1)), op.value(4), single_number(op, op.value(6))
    )  # one, or for each filter: the last axis
    return _rescale(op, computed(sums, Layout.CHANNELS_LAST), scale, op.value(7))


def _convolve(
    op: OperatorContext, value: Value, zero: Value | None, kernel: Value, kernel_zero: Value | None
) -> TfTensor:
    zeros = kernel_zero and (
        reshape_parameter(kernel_zero, [kernel_zero.size(0), *[1] * (kernel.rank - 1)])
        if kernel_zero.rank
        else kernel_zero
    )
    window = read_window(op, value, kernel_sizes(op, kernel))
    x, w = subtract_zero_point(op, value, zero and single_number(op, zero)), subtract_zero_point(op, kernel, zeros)
    return convolve_integers(op, x, w, window, op.integer("group", 1))


@lowers("MatMulInteger", since=10, T1=EIGHT_BITS, T2=EIGHT_BITS)
def matmul_integer(op: OperatorContext) -> Value:
    """Lower MatMulInteger: a product of numbers minus their zero points, as int32."""
    return computed(multiply_quantized(op, op.value(0), op.optional(2), op.value(1), op.optional(3)))


@lowers("QLinearMatMul", since=10, until=20, T1=EIGHT_BITS, T2=EIGHT_BITS, T3=EIGHT_BITS)
@lowers("QLinearMatMul", since=21, T1=EIGHT_BITS, T2=EIGHT_BITS, T3=EIGHT_BITS, TS=_SCALES)
def qlinear_matmul(op: OperatorContext) -> Value:
    """Lower QLinearMatMul: a product, brought from the scale of its products to the one of the result."""
    left, right = op.value(0), op.value(3)
    sums = multiply_quantized(op, left, op.value(2), right, op.value(5))
    scale = _scale_ratio(
        _shape_for_rows(op, op.value(1), left),
        shape_for_columns(op, op.value(4), right),
        single_number(op, op.value(6)),
    )
    return _rescale(op, computed(sums), scale, op.value(7))


def multiply_quantized(
    op: OperatorContext, left: Value, left_zero: Value | None, right: Value, right_zero: Value | None
) -> TfTensor:
    """Multiply two matrices of 8 bits, less their zero points, as int32."""
    a = subtract_zero_point(op, left, left_zero and _shape_for_rows(op, left_zero, left))
    return multiply_matrices(
        op, a, subtract_zero_point(op, right, right_zero and shape_for_columns(op, right_zero, right))
    )


def single_number(op: OperatorContext, part: Value) -> Value:
    """Return a scale or a zero point that is one number, as a scalar."""
    if part.rank == 0:
        return part
    if part.shape != (1,):
        op.refuse(f"a scale or zero point has the shape {part.shape}, where it takes one number", fix="check the model")
    return reshape_parameter(part, ())


def _shape_for_rows(op: OperatorContext, part: Value, matrix: Value) -> Value:
    """Return a scale or a zero point of the left matrix: one, one for each row, or in the shape (..., rows, 1)."""
    if part.rank == 0 or part.shape == (1,) or matrix.rank == 1:
        return single_number(op, part)
    return reshape_parameter(part, [part.size(0), 1]) if part.rank == 1 else part


def shape_for_columns(op: OperatorContext, part: Value, matrix: Value) -> Value:
    """Return a scale or a zero point of the right matrix: one, one for each column, or as (..., 1, columns)."""
    return single_number(op, part) if part.rank == 0 or part.shape == (1,) or matrix.rank == 1 else part


def _scale_ratio(a: Value, b: Value, y: Value) -> TfTensor:
    """Return the factor from the scale of products to that of the result: a b / y, in their dtype."""
    if a.array is not None and b.array is not None and y.array is not None:
        return tf.constant((a.array * b.array / y.array).astype(a.dtype), tf.float32)
    return tf.cast(divide_exactly(a.tensor() * b.tensor(), y.tensor()), tf.float32)


def _rescale(op: OperatorContext, sums: Value, scale: TfTensor, zero: Value) -> Value:
    """Return sums times a scale that fits their layout, rounded, plus the zero point, in its dtype."""
    point = single_number(op, zero).tensor()
    return map_elements(sums, lambda t: add_zero_point(tf.round(tf.cast(t, tf.float32) * scale), point, zero.dtype))


# The operators of ONNX Runtime's quantiser. As their documentation has it, those that are functions apply the function
# to the dequantised numbers, and quantise its result.


@lowers("QLinearAdd", "QLinearMul", domain=MICROSOFT, T=_MIXED)
def qlinear_binary(op: OperatorContext) -> Value:
    """Lower QLinearAdd and QLinearMul: the sum or the product."""
    function = tf.add if op.node.op_type == "QLinearAdd" else tf.multiply
    return _quantize_result(op, broadcast(function, _real_input(op, 0), _real_input(op, 3)), 6)


_FUNCTIONS: dict[str, Callable[[OperatorContext], Value]] = {
    "QLinearAveragePool": average_pool,
    "QLinearGlobalAveragePool": global_pool,
    "QLinearLeakyRelu": leaky_relu,
    "QLinearSigmoid": lambda op: map_elements(op.value(0), tf.sigmoid),
}


@lowers(*_FUNCTIONS, domain=MICROSOFT, T=_MIXED)
def qlinear_function(op: OperatorContext) -> Value:
    """Lower an operator as the standard one of the rest of its name."""
    if op.flag("channels_last"):
        op.refuse("its attribute channels_last is set", fix="quantise the model without the layout optimiser")
    return _quantize_result(op, _FUNCTIONS[op.op_type](op.with_inputs(_real_input(op, 0))), 3)


@lowers("QLinearSoftmax", domain=MICROSOFT, T=_MIXED)
def qlinear_softmax(op: OperatorContext) -> Value:
    """Lower QLinearSoftmax: exp(x) over its sum along one axis."""
    value = _real_input(op, 0)
    if op.integer("opset") < 13 and op.integer("axis", -1) % value.rank != value.rank - 1:
        op.refuse("it runs over several axes, as before opset 13", fix="export it with opset 13 or newer")
    return _quantize_result(op, softmax(op.with_inputs(value).read_as("Softmax", 13)), 3)


@lowers("QLinearConcat", domain=MICROSOFT, T=_MIXED)
def qlinear_concat(op: OperatorContext) -> Value:
    """Lower QLinearConcat: joined along an axis, each with its own scale and zero point."""
    count = len(op.values(2)) // 3
    return _quantize_result(
        op, concat(op.with_inputs(*[_real_input(op, 2 + 3 * at) for at in range(count)])), 0, like=2
    )


@lowers("QLinearWhere", domain=MICROSOFT, T=_MIXED | BOOL)
def qlinear_where(op: OperatorContext) -> Value:
    """Lower QLinearWhere: one or the other, by a condition."""
    return _quantize_result(op, broadcast(tf.where, op.value(0), _real_input(op, 1), _real_input(op, 4)), 7, like=1)


def _real_input(op: OperatorContext, at: int) -> Value:
    """Return the numbers that input `at` stands for, with its scale and zero point, which come after it."""
    value, zero = op.value(at), op.optional(at + 2)
    if value.dtype not in EIGHT_BITS:
        op.refuse(f"its input {at} is {value.dtype}, and only int8 and uint8 can be carried")
    return dequantize(value, single_number(op, op.value(at + 1)), zero and single_number(op, zero))


def _quantize_result(op: OperatorContext, real: Value, at: int, like: int = 0) -> Value:
    """Quantise by the scale that input `at` is and the zero point after it, to the dtype of the input `like`."""
    zero = op.optional(at + 1)
    return quantize(real, single_number(op, op.value(at)), zero and single_number(op, zero), op.value(like).dtype)


@lowers("QGemm", domain=MICROSOFT, T=_MIXED)
def qgemm(op: OperatorContext) -> Value:
    """Lower QGemm: alpha A B + C, where C has the scale of the product; float32 where the result has no scale."""
    alpha = np.float32(op.real("alpha", 1.0))
    left, right = (_transpose(op.value(at), turn=op.flag(name)) for at, name in ((0, "transA"), (3, "transB")))
    sums = multiply_quantized(op, left, op.value(2), right, op.value(5))
    bias, scale = op.optional(6), op.optional(7)
    sums = sums if bias is None else sums + bias.tensor()
    unit = op.known(np.array(1, np.float32)) if scale is None else single_number(op, scale)
    ratio = _scale_ratio(single_number(op, op.value(1)), shape_for_columns(op, op.value(4), right), unit) * alpha
    if scale is None:
        return computed(tf.cast(sums, tf.float32) * ratio)
    return _rescale(op, computed(sums), ratio, op.value(8))


def _transpose(matrix: Value, *, turn: bool) -> Value:
    if not turn:
        return matrix
    return computed(tf.transpose(matrix.tensor())) if matrix.array is None else known(matrix.array.T, matrix.weights)


@lowers("MatMulIntegerToFloat", domain=MICROSOFT, T=_MIXED)
def matmul_integer_to_float(op: OperatorContext) -> Value:
    """Lower MatMulIntegerToFloat: a product of quantised matrices as real numbers, plus a bias."""
    left, right = op.value(0), op.value(1)
    sums = multiply_quantized(op, left, op.optional(4), right, op.optional(5))
    return dequantize_sums(
        sums, single_number(op, op.value(2)), shape_for_columns(op, op.value(3), right), op.optional(6)
    )


@lowers("DynamicQuantizeMatMul", domain=MICROSOFT, T=_MIXED)
def dynamic_quantize_matmul(op: OperatorContext) -> Value:
    """Lower DynamicQuantizeMatMul: a real factor, quantised by its range, times a quantised one, plus bias; real."""
    right = op.value(1)
    numbers, scale, zero = quantize_dynamically(op.value(0))
    sums = multiply_quantized(op, numbers, zero, right, op.optional(3))
    return dequantize_sums(sums, scale, shape_for_columns(op, op.value(2), right), op.optional(4))


def dequantize_sums(sums: TfTensor, a: Value, b: Value, bias: Value | None) -> Value:
    """Return sums times their scale, plus a bias, in the dtype of the scales."""
    scale = a.tensor() * b.tensor()
    real = tf.cast(tf.cast(sums, tf.float32) * tf.cast(scale, tf.float32), scale.dtype)
    return computed(real if bias is None else real + bias.tensor())


@lowers("DynamicQuantizeLSTM", domain=MICROSOFT, T=_MIXED)
def dynamic_quantize_lstm(op: OperatorContext) -> list[Value | None]:
    """Lower DynamicQuantizeLSTM: an LSTM whose rows are quantised before each product with its weights.

    The input's rows are quantised as one tensor, the states' at each step, of the full batch. On many threads ONNX
    Runtime's kernel quantises parts of the batch, and so has other ranges; this is its result on one thread.
    """
    if op.has("clip") or op.flag("layout"):
        op.refuse("its attributes clip and layout are not carried", fix="quantise the model without them")
    if op.optional(4) is not None:
        op.refuse("the range of states behind a sequence's end is not defined", fix="leave sequence_lens out")
    scales, zeros = (
        [op.array(at, part) for at in pair] for pair, part in (((8, 10), "scale"), ((9, 11), "zero point"))
    )

    def matrix(place: int, at: int) -> tuple[Integers, Array]:
        numbers = subtract_zero_point(op, op.known(op.array(place, "weight")[at]), op.known(zeros[place - 1][at]))
        return numbers, scales[place - 1][at]  # (n, gates H), and one scale or one for each column

    def weights_of(inner: OperatorContext, at: int) -> DirectionWeights:
        return DirectionWeights(matrix(1, at), matrix(2, at), *biases(inner, at), product)

    def product(rows: TfTensor, matrix: tuple[Integers, Array]) -> TfTensor:
        numbers, scale, zero = quantize_dynamically(computed(rows))
        sums = multiply_matrices(op, subtract_zero_point(op, numbers, zero), matrix[0])
        return tf.cast(sums, tf.float32) * (scale.tensor() * matrix[1])

    layer_context = op.with_inputs(*(op.optional(at) for at in range(8))).read_as("LSTM", 22)
    return run_lstm(read_layer(layer_context, hidden_axis=1), weights_of)


@lowers("MatMulNBits", domain=MICROSOFT, T=_MIXED)
def matmul_n_bits(op: OperatorContext) -> Value:
    """Lower MatMulNBits: a product with (columns, blocks along the summed axis, bytes), unpacked now, and a bias."""
    op.ignore("accuracy_level", because="it says how coarse the arithmetic may be, and here it is never coarser")
    if op.integer("weight_prepacked", 0):
        op.refuse("its attribute weight_prepacked is set", fix="use the weights as the quantiser writes them")
    columns, bits = op.integer("N"), op.integer("bits", 4)
    if bits not in (2, 4, 8):
        op.refuse(f"its weights have {bits} bits, and only 2, 4 and 8 can be carried")
    scales = op.array(2, "scales").reshape(columns, -1)
    numbers = unpack_bits(op.array(1, "weight").reshape(columns, -1), bits)
    blocks = numbers.reshape(*scales.shape, op.integer("block_size")).astype(np.float32)
    zeros = _zero_points(op, scales.shape, bits)
    matrix = ((blocks - zeros[..., None]) * scales[..., None].astype(np.float32)).reshape(columns, -1)[
        :, : op.integer("K")
    ]
    result, bias = matmul(op.with_inputs(op.value(0), op.known(matrix.T.astype(scales.dtype)))), op.optional(5)
    return result if bias is None else broadcast(tf.add, result, bias)


def _zero_points(op: OperatorContext, shape: tuple[int, ...], bits: int) -> Array:
    """Return the zero points, (columns, blocks): packed as the weights are, or not; the middle where there are none."""
    packed = op.optional_array(3, "zero points")
    if packed is None:
        return np.full(shape, 1 << bits - 1, np.float32)
    rows = packed.reshape(shape[0], -1)
    return (unpack_bits(rows, bits)[:, : shape[1]] if packed.dtype == np.uint8 else rows).astype(np.float32)


def unpack_bits(rows: Array, bits: int) -> Array:
    """Unpack bytes (rows, n) to numbers of fewer bits, (rows, 8 n / bits); the lowest bits come first."""
    parts = [rows >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(len(rows), -1)
