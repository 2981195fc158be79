"""TensorFlow's own kernels, and what each computes; tflite_kernels.py has equivalents under the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from ..lazy_tensorflow import tf
from ..values import Size, TfTensor
from . import tflite_reductions
from .exact_quotients import divide_exactly
from .loop_outputs import ListCollector, OutputCollector


class Kernels:
    """TensorFlow's own dialect."""

    name = "TensorFlow"
    wider: Mapping[str, str] = {}  # by dtype, the one that is computed in instead (dtype_promotion.py)
    three_axes = True  # convolutions in three spatial axes, transposed ones included
    # TensorFlow 2.21 fuses a bias into a convolution of groups. On processors without AVX-512, where it does not use
    # oneDNN, it has no kernel for that: "Fused conv implementation does not support grouped convolutions for now."
    fuses_grouped_bias = False
    doubles = True  # arithmetic in float64
    flattens_rows = True  # rows of any rank times one matrix: as rows of two axes
    # Unrolled steps of a loop run faster and can be quantised. Each costs TFLite's converter about 30 ms, and a loop
    # 300 ms in all.
    most_unrolled = 16

    def depthwise_conv2d(
        self, x: TfTensor, weight: TfTensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
    ) -> TfTensor:
        """Convolve (N, H, W, C) with (h, w, C, multiplier); strides are equal, and 1 with dilations."""
        return tf.nn.depthwise_conv2d(x, weight, (1, *strides, 1), padding, dilations=dilations)

    def max_pool2d(self, x: TfTensor, kernel: Sequence[int], strides: Sequence[int], padding: str) -> TfTensor:
        """Pool (N, H, W, C) of any real dtype. Elements that SAME adds never win."""
        return tf.nn.max_pool2d(x, kernel, strides, padding)

    def avg_pool2d(self, x: TfTensor, kernel: Sequence[int], strides: Sequence[int], padding: str) -> TfTensor:
        """Pool (N, H, W, C) of any float dtype. Elements that SAME adds do not count."""
        return tf.nn.avg_pool2d(x, kernel, strides, padding)

    def collector(self, spec: Any, steps: Size | None) -> OutputCollector:
        """Return a collector of an output of `steps` steps of a loop (None: not counted yet), each a tf.TensorSpec."""
        return ListCollector(spec, steps)

    def elementwise(self, name: str) -> Callable[..., TfTensor]:
        """Return TensorFlow's function of a name ("acos", "bitwise.invert"): of tensors of one dtype and shape."""
        function: Callable[..., TfTensor] = attrgetter(name)(tf)
        return function

    def relu(self, x: TfTensor) -> TfTensor:
        """Return the larger of x and 0, NaN of NaN.

        On a CPU TensorFlow 2.21 fuses tf.nn.relu into the convolution or the product before it, where oneDNN makes 0
        of NaN. It leaves this form alone, which takes as long (docs/design/lowering.md).
        """
        return tf.maximum(x, tf.zeros([], x.dtype))

    def cast(self, x: TfTensor, dtype: str) -> TfTensor:
        """Cast numbers to another dtype: floats are cut towards zero, integers wrap modulo its width."""
        return tf.cast(x, dtype)

    def divide(self, x: TfTensor, y: TfTensor) -> TfTensor:
        """Divide floats by a constant, exact to the last bit."""
        return divide_exactly(x, y)

    def shift_bits(self, x: TfTensor, places: TfTensor, *, left: bool) -> TfTensor:
        """Move the bits of integers by int32 places, to the left or to the right.

        By all bits or more, or by a negative number, nothing is left, except the sign of a signed number that is moved
        to the right.
        """
        bits = x.dtype.size * 8
        inside = tf.logical_and(places >= 0, places < bits)
        function = tf.bitwise.left_shift if left else tf.bitwise.right_shift
        moved = function(x, tf.cast(tf.where(inside, places, bits - 1), x.dtype))
        return moved if not left and not x.dtype.is_unsigned else tf.where(inside, moved, tf.zeros_like(moved))

    def places_where(self, condition: TfTensor) -> TfTensor:
        """Return the int64 places where a condition of any rank holds, row by row: (count, rank)."""
        return tf.where(condition)

    def minus_infinity(self, like: TfTensor) -> TfTensor:
        """Return minus infinity in the shape and the dtype of a float tensor without NaN."""
        return tf.fill(tf.shape(like), tf.constant(float("-inf"), like.dtype))

    def reverse_sequence(self, x: TfTensor, lengths: TfTensor, time: int, batch: int) -> TfTensor:
        """Reverse the first lengths[i] elements along the axis `time`, for each i along the axis `batch`."""
        return tf.reverse_sequence(x, lengths, time, batch)

    def fourier(
        self,
        real: TfTensor,
        imaginary: TfTensor | None,
        length: Size,  # noqa: ARG002  (TFLite needs it)
        bins: Size,
    ) -> tuple[TfTensor, TfTensor]:
        """Return the first `bins` of sum_n x_n exp(-2 pi j k n / length) along the last axis: real part, imaginary
        part.

        That axis has `length` elements; float32 or float64. `bins` is at most length // 2 + 1 where the numbers are
        real.
        """
        if imaginary is None:
            spectrum = tf.signal.rfft(real)[..., :bins]
        else:
            spectrum = tf.signal.fft(tf.complex(real, imaginary))[..., :bins]
        return tf.math.real(spectrum), tf.math.imag(spectrum)

    def reduce_max(self, x: TfTensor, axes: Sequence[int] | TfTensor, keep: bool) -> TfTensor:
        """Return the largest over axes, which may be computed; of nothing minus infinity, or the lowest integer."""
        return tf.reduce_max(x, axes, keep)

    def reduce_min(self, x: TfTensor, axes: Sequence[int] | TfTensor, keep: bool) -> TfTensor:
        """Return the smallest over axes, which may be computed; of nothing infinity, or the highest integer."""
        return tf.reduce_min(x, axes, keep)

    def matmul(self, a: TfTensor, b: TfTensor, transpose_a: bool = False, transpose_b: bool = False) -> TfTensor:
        """Multiply (..., M, K) by (..., K, N), floats or signed integers of 32 or 64 bits; leading axes broadcast."""
        return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)

    def scatter(self, mode: str, tensor: TfTensor, places: TfTensor, updates: TfTensor) -> TfTensor:
        """Set slices at index vectors to updates ("none"), or reduce all with them ("add", "mul", "max", "min")."""
        if mode == "mul":
            return tflite_reductions.scatter_by_segments(mode, tensor, places, updates)
        return getattr(tf, f"tensor_scatter_nd_{'update' if mode == 'none' else mode}")(tensor, places, updates)

    def row_sums(self, updates: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
        """Return `rows` rows, each the sum of its updates, 0 without any; `row`, int32: where each update goes."""
        return tf.math.unsorted_segment_sum(updates, row, rows)

    def cumprod(self, x: TfTensor, axis: Size, exclusive: bool, reverse: bool) -> TfTensor:
        """Return the running product along an axis, which may be computed; without the element if `exclusive`."""
        return tf.math.cumprod(x, axis, exclusive, reverse)

    def non_max_suppression(
        self, boxes: TfTensor, scores: TfTensor, count: TfTensor, overlap: TfTensor, least: TfTensor | None
    ) -> tuple[TfTensor, TfTensor]:
        """Return which of the boxes (n, 4) are chosen: (count,), and how many of these are meant.

        Boxes are any two opposite corners. They are chosen by falling scores (n,) above `least`, of equals the first;
        none that overlaps a chosen one by more than `overlap`.
        """
        if least is None:  # even -inf is enough
            scores, least = tf.maximum(scores, scores.dtype.min), tf.constant(float("-inf"))
        chosen, valid = tf.raw_ops.NonMaxSuppressionV4(
            boxes=boxes,
            scores=scores,
            max_output_size=count,
            iou_threshold=overlap,
            score_threshold=least,
            pad_to_max_output_size=True,
        )
        return chosen, valid

    def determinant(self, matrices: TfTensor) -> TfTensor:
        """Return the determinants (n,) of (n, size, size) in float32 or float64."""
        return tf.linalg.det(matrices)

    def scaled_size(self, size: Size, over: Size, under: Size) -> Size:
        """Return `size` over / under, halves rounded up."""
        if not all(isinstance(number, int) for number in (size, over, under)):
            size, over, under = (tf.cast(number, tf.int64) for number in (size, over, under))
            return tf.cast((2 * over * size + under) // (2 * under), tf.int32)
        return (2 * over * size + under) // (2 * under)
