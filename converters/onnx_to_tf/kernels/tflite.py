"""Equivalents of TensorFlow's kernels in what TFLite has, without operators of TensorFlow (Flex)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..lazy import tf
from ..values import TfTensor
from . import functions, integers
from .boxes import non_max_suppression
from .matrices import determinant
from .tensorflow import Kernels


class TFLiteKernels(Kernels):
    """In float32 where nothing else is said."""

    name = "TFLite"
    # 8-bit integers it takes for quantised numbers: it aborts, or answers with zeros. In others it has few kernels.
    wider: Mapping[str, str] = {
        "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64",
        "float16": "float32", "bfloat16": "float32",
    }  # fmt: skip
    three_axes = False  # it has some, which are slow, and in float only
    doubles = False

    def depthwise_conv2d(
        self, x: TfTensor, weight: TfTensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
    ) -> TfTensor:
        # With dilations as the operator's own, where tf.nn moves space into the batch for TensorFlow's kernel.
        return tf.raw_ops.DepthwiseConv2dNative(
            input=x, filter=weight, strides=(1, *strides, 1), padding=padding, dilations=(1, *dilations, 1)
        )

    def max_pool2d(self, x: TfTensor, kernel: Sequence[int], strides: Sequence[int], padding: str) -> TfTensor:
        # float32 holds every number of the other dtypes that it is called with.
        return _in_float32(x, lambda t: tf.nn.max_pool2d(t, kernel, strides, padding))

    def avg_pool2d(self, x: TfTensor, kernel: Sequence[int], strides: Sequence[int], padding: str) -> TfTensor:
        return _in_float32(x, lambda t: tf.nn.avg_pool2d(t, kernel, strides, padding))

    def elementwise(self, name: str) -> Callable[..., TfTensor]:
        own = super().elementwise(name)

        def function(*tensors: TfTensor) -> TfTensor:
            table = integers.FUNCTIONS if tensors[0].dtype.is_integer else functions.FUNCTIONS
            return table.get(name, own)(*tensors)

        return function

    def shifted(self, x: TfTensor, places: TfTensor, *, left: bool) -> TfTensor:
        return integers.shifted(x, places, left=left)

    def minus_infinity(self, like: TfTensor) -> TfTensor:
        # Its converter makes the lowest number of an infinity that is a constant, and its sums stop there too.
        return tf.math.log(tf.nn.relu(-tf.abs(like)))

    def determinant(self, matrices: TfTensor) -> TfTensor:
        if matrices.shape[1] is None:
            raise NotImplementedError("TFLite has no determinant of matrices whose size is known only when they come")
        return determinant(matrices)

    def non_max_suppression(
        self, boxes: TfTensor, scores: TfTensor, count: TfTensor, overlap: TfTensor, least: TfTensor | None
    ) -> tuple[TfTensor, TfTensor]:
        return non_max_suppression(boxes, scores, count, overlap, least)



def _in_float32(x: TfTensor, function: Callable[[TfTensor], TfTensor]) -> TfTensor:
    return function(x) if x.dtype == tf.float32 else tf.cast(function(tf.cast(x, tf.float32)), x.dtype)
