"""TensorFlow's own kernels. Each method says what it computes; tflite.py has the equivalents under the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from ..lazy_tensorflow import tf
from ..values import Size, TfTensor
from . import tflite_scatters
from .exact_quotients import quotient
from .loop_outputs import ListPile, Pile

_SCATTERS = {
    "none": "tensor_scatter_nd_update",
    "add": "tensor_scatter_nd_add",
    "max": "tensor_scatter_nd_max",
    "min": "tensor_scatter_nd_min",
}


class Kernels:
    """TensorFlow's own."""

    name = "TensorFlow"
    wider: Mapping[str, str] = {}  # by dtype, the one that is computed in instead (carry.py)
    three_axes = True  # convolutions in three spatial axes, transposed ones included
    doubles = True  # arithmetic in float64
    flattens_rows = True  # rows of any rank times one matrix: as rows of two axes

    def depthwise_conv2d(
        self, x: TfTensor, weight: TfTensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
    ) -> TfTensor:
        """(N, H, W, C) * (h, w, C, multiplier) -> (N, H, W, C * multiplier); strides alike, and 1 with dilations."""
        return tf.nn.depthwise_conv2d(x, weight, (1, *strides, 1), padding, dilations=dilations)

    def max_pool2d(self, x: TfTensor, kernel: Sequence[int], strides: Sequence[int], padding: str) -> TfTensor:
        """(N, H, W, C) of any real dtype. Elements that SAME adds never win."""
        return tf.nn.max_pool2d(x, kernel, strides, padding)

    def avg_pool2d(self, x: TfTensor, kernel: Sequence[int], strides: Sequence[int], padding: str) -> TfTensor:
        """(N, H, W, C) of any float dtype. Elements that SAME adds do not count."""
        return tf.nn.avg_pool2d(x, kernel, strides, padding)

    def pile(self, spec: Any, steps: Size | None) -> Pile:
        """What collects the outputs of `steps` steps of a loop (None: not counted yet), each of a tf.TensorSpec."""
        return ListPile(spec, steps)

    def elementwise(self, name: str) -> Callable[..., TfTensor]:
        """TensorFlow's function of this name ("acos", "bitwise.invert"): of tensors of one dtype, in their shape."""
        function: Callable[..., TfTensor] = attrgetter(name)(tf)
        return function

    def cast(self, x: TfTensor, dtype: str) -> TfTensor:
        """Numbers of another dtype: floats cut towards zero, integers modulo its width."""
        return tf.cast(x, dtype)

    def divided(self, x: TfTensor, y: TfTensor) -> TfTensor:
        """Floats divided by a constant, to the last bit."""
        return quotient(x, y)

    def shifted(self, x: TfTensor, places: TfTensor, *, left: bool) -> TfTensor:
        """The bits of integers moved by int32 places, to the left or to the right. By all bits or more, or by a
        negative number, nothing is left, but the sign of a signed number that is moved to the right."""
        bits = x.dtype.size * 8
        inside = tf.logical_and(places >= 0, places < bits)
        function = tf.bitwise.left_shift if left else tf.bitwise.right_shift
        moved = function(x, tf.cast(tf.where(inside, places, bits - 1), x.dtype))
        return moved if not left and not x.dtype.is_unsigned else tf.where(inside, moved, tf.zeros_like(moved))

    def places(self, condition: TfTensor) -> TfTensor:
        """The int64 places where a condition holds, row by row, of any number: (count, rank)."""
        return tf.where(condition)

    def minus_infinity(self, like: TfTensor) -> TfTensor:
        """Minus infinity in the shape and the dtype of a float tensor without NaN."""
        return tf.fill(tf.shape(like), tf.constant(float("-inf"), like.dtype))

    def reverse_sequence(self, x: TfTensor, lengths: TfTensor, time: int, batch: int) -> TfTensor:
        """The first lengths[i] elements along the axis `time` in reverse order, for each i along the axis `batch`."""
        return tf.reverse_sequence(x, lengths, time, batch)

    def fourier(
        self,
        real: TfTensor,
        imaginary: TfTensor | None,
        length: Size,  # noqa: ARG002  (TFLite needs it)
        bins: Size,
    ) -> tuple[TfTensor, TfTensor]:
        """The first `bins` of sum_n x_n exp(-2 pi j k n / length), real and imaginary part, along the last axis, which
        has `length` elements; float32 or float64. `bins` is at most length // 2 + 1 where the numbers are real."""
        if imaginary is None:
            made = tf.signal.rfft(real)[..., :bins]
        else:
            made = tf.signal.fft(tf.complex(real, imaginary))[..., :bins]
        return tf.math.real(made), tf.math.imag(made)

    def reduce_max(self, x: TfTensor, axes: Sequence[int] | TfTensor, keep: bool) -> TfTensor:
        """The largest over axes, which may be computed; of no elements minus infinity, or the lowest integer."""
        return tf.reduce_max(x, axes, keep)

    def reduce_min(self, x: TfTensor, axes: Sequence[int] | TfTensor, keep: bool) -> TfTensor:
        """The smallest over axes, which may be computed; of no elements infinity, or the highest integer."""
        return tf.reduce_min(x, axes, keep)

    def matmul(self, a: TfTensor, b: TfTensor, transpose_a: bool = False, transpose_b: bool = False) -> TfTensor:
        """(..., M, K) by (..., K, N), floats or signed integers of 32 or 64 bits; the axes before broadcast."""
        return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)

    def scatter(self, mode: str, tensor: TfTensor, places: TfTensor, updates: TfTensor) -> TfTensor:
        """The tensor with the slices at index vectors set to the updates ("none"), or reduced with them ("add", "mul",
        "max", "min"), duplicates included."""
        if mode == "mul":
            return tflite_scatters.combined(mode, tensor, places, updates)
        return getattr(tf, _SCATTERS[mode])(tensor, places, updates)

    def row_sums(self, updates: TfTensor, row: TfTensor, rows: TfTensor) -> TfTensor:
        """As many rows as are asked for: of each the sum of the updates that go to it, 0 where none does. `row`, int32:
        where each update goes."""
        return tf.math.unsorted_segment_sum(updates, row, rows)

    def cumprod(self, x: TfTensor, axis: Size, exclusive: bool, reverse: bool) -> TfTensor:
        """The running product along an axis, which may be computed; without the element itself if `exclusive`."""
        return tf.math.cumprod(x, axis, exclusive, reverse)

    def non_max_suppression(
        self, boxes: TfTensor, scores: TfTensor, count: TfTensor, overlap: TfTensor, least: TfTensor | None
    ) -> tuple[TfTensor, TfTensor]:
        """Which of the boxes (n, 4), any two opposite corners, are chosen: (count,), and how many of these are meant.

        By falling scores (n,) above `least`, of equals the first; none that overlaps one before by more than `overlap`.
        """
        if least is None:  # even -inf is enough
            scores, least = tf.maximum(scores, scores.dtype.min), tf.constant(float("-inf"))
        found, valid = tf.raw_ops.NonMaxSuppressionV4(
            boxes=boxes,
            scores=scores,
            max_output_size=count,
            iou_threshold=overlap,
            score_threshold=least,
            pad_to_max_output_size=True,
        )
        return found, valid

    def determinant(self, matrices: TfTensor) -> TfTensor:
        """Of (n, size, size) in float32 or float64: (n,)."""
        return tf.linalg.det(matrices)
