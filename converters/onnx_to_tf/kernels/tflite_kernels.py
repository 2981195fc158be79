"""Equivalents of TensorFlow's kernels in what TFLite has, without operators of TensorFlow (Flex)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..lazy_tensorflow import tf
from ..values import Size, TfTensor
from . import tflite_functions, tflite_integers, tflite_matrices, tflite_reductions
from .exact_quotients import guard_quotients
from .loop_outputs import GrowingCollector, OutputCollector
from .tensorflow_kernels import Kernels
from .tflite_boxes import non_max_suppression


class TFLiteKernels(Kernels):
    """TFLite's dialect, in float32 where nothing else is said."""

    name = "TFLite"
    # TFLite takes 8-bit integers for quantised numbers: it aborts, or answers zeros. For others it has few kernels.
    wider: Mapping[str, str] = {
        "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64",
        "float16": "float32", "bfloat16": "float32",
    }  # fmt: skip
    three_axes = False  # TFLite's are slow, and in float only
    fuses_grouped_bias = True
    doubles = False
    # TFLite's kernel takes rows of any rank. With reshapes to a computed shape around it, and a loop behind it,
    # XNNPACK (litert 2.3) used the memory of another tensor at the second call: one interpreter in twenty was wrong.
    flattens_rows = False

    fourier = staticmethod(tflite_matrices.fourier_transform)
    non_max_suppression = staticmethod(non_max_suppression)
    reduce_max = staticmethod(tflite_reductions.reduce_max)
    reduce_min = staticmethod(tflite_reductions.reduce_min)
    row_sums = staticmethod(tflite_reductions.row_sums)
    scatter = staticmethod(tflite_reductions.scatter_by_segments)
    shift_bits = staticmethod(tflite_integers.shift_bits)

    def depthwise_conv2d(
        self, x: TfTensor, weight: TfTensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
    ) -> TfTensor:
        """Convolve with the operator's own dilations: tf.nn moves space into the batch for TensorFlow's kernel."""
        return tf.raw_ops.DepthwiseConv2dNative(
            input=x, filter=weight, strides=(1, *strides, 1), padding=padding, dilations=(1, *dilations, 1)
        )

    def max_pool2d(self, x: TfTensor, kernel: Sequence[int], strides: Sequence[int], padding: str) -> TfTensor:
        """Pool in float32, which holds an integer that comes from 8 bits (`wider`)."""
        as_float = tf.nn.max_pool2d(tf.cast(x, tf.float32), kernel, strides, padding)
        return tf.cast(as_float, x.dtype)

    def collector(self, spec: Any, steps: Size | None) -> OutputCollector:
        return GrowingCollector(spec, steps)

    def elementwise(self, name: str) -> Callable[..., TfTensor]:
        plain = super().elementwise(name)

        def function(*tensors: TfTensor) -> TfTensor:
            table = tflite_integers.FUNCTIONS if tensors[0].dtype.is_integer else tflite_functions.FUNCTIONS
            return table.get(name, plain)(*tensors)

        return function

    def relu(self, x: TfTensor) -> TfTensor:
        return tf.nn.relu(x)  # fused into the operator before it, as TFLite's quantiser needs it

    def cast(self, x: TfTensor, dtype: str) -> TfTensor:
        if not tf.as_dtype(dtype).is_integer:
            return super().cast(x, dtype)
        return (
            tflite_integers.cast(x, tf.as_dtype(dtype))
            if x.dtype.is_integer
            else super().cast(guard_quotients(x), dtype)
        )

    def divide(self, x: TfTensor, y: TfTensor) -> TfTensor:
        return x / y  # the converter sees the divisor anyway; `guard_quotients` mends it where a result is rounded

    def places_where(self, condition: TfTensor) -> TfTensor:
        # As an output of the model, the empty result of TFLite's own kernel cannot be read.
        return tf.cast(tf.cast(tf.where(condition), tf.int32), tf.int64)

    def reverse_sequence(self, x: TfTensor, lengths: TfTensor, time: int, batch: int) -> TfTensor:
        through = {tf.bool: "int32", tf.uint64: "int64"}.get(x.dtype)  # TFLite reverses neither
        if through is None:
            return super().reverse_sequence(x, lengths, time, batch)
        return self.cast(super().reverse_sequence(self.cast(x, through), lengths, time, batch), x.dtype.name)

    def minus_infinity(self, like: TfTensor) -> TfTensor:
        # The converter turns an infinity that is a constant into the lowest number, and TFLite's sums stop there too.
        return tf.math.log(tf.nn.relu(-tf.abs(like)))

    def matmul(self, a: TfTensor, b: TfTensor, transpose_a: bool = False, transpose_b: bool = False) -> TfTensor:
        if a.dtype.is_floating:
            return super().matmul(a, b, transpose_a, transpose_b)
        a = tf.linalg.matrix_transpose(a) if transpose_a else a  # TFLite multiplies no matrices of integers
        b = tf.linalg.matrix_transpose(b) if transpose_b else b
        return tf.reduce_sum(a[..., :, :, None] * b[..., None, :, :], axis=-2)

    def cumprod(self, x: TfTensor, axis: Size, exclusive: bool, reverse: bool) -> TfTensor:
        if not isinstance(axis, int):
            raise NotImplementedError("TFLite has no running product along a computed axis")
        return tflite_reductions.running_product(x, axis, exclusive, reverse)

    def determinant(self, matrices: TfTensor) -> TfTensor:
        if matrices.shape[1] is None:
            raise NotImplementedError("TFLite has no determinant of matrices whose size is known only when they come")
        return tflite_matrices.determinant(matrices)

    def scaled_size(self, size: Size, over: Size, under: Size) -> Size:
        return (2 * over * size + under) // (2 * under)  # TFLite divides 32 bits only: up to size over = 2^30
