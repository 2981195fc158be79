"""TensorFlow's own kernels. Each method says what it computes; tflite.py has the equivalents under the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

from ..lazy import tf
from ..values import TfTensor


class Kernels:
    """TensorFlow's own."""

    name = "TensorFlow"
    wider: Mapping[str, str] = {}  # by dtype, the one that is computed in instead (carry.py)
    three_axes = True  # convolutions in three spatial axes, transposed ones included
    doubles = True  # arithmetic in float64

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

    def elementwise(self, name: str) -> Callable[..., TfTensor]:
        """TensorFlow's function of this name ("acos", "bitwise.invert"): of tensors of one dtype, in their shape."""
        function: Callable[..., TfTensor] = attrgetter(name)(tf)
        return function

    def shifted(self, x: TfTensor, places: TfTensor, *, left: bool) -> TfTensor:
        """The bits of integers moved by int32 places, to the left or to the right. By all bits or more, or by a
        negative number, nothing is left, but the sign of a signed number that is moved to the right."""
        bits = x.dtype.size * 8
        inside = tf.logical_and(places >= 0, places < bits)
        function = tf.bitwise.left_shift if left else tf.bitwise.right_shift
        moved = function(x, tf.cast(tf.where(inside, places, bits - 1), x.dtype))
        return moved if not left and not x.dtype.is_unsigned else tf.where(inside, moved, tf.zeros_like(moved))

    def minus_infinity(self, like: TfTensor) -> TfTensor:
        """Minus infinity in the shape and the dtype of a float tensor without NaN."""
        return tf.fill(tf.shape(like), tf.constant(float("-inf"), like.dtype))

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
