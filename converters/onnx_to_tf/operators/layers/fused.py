"""ONNX Runtime's fused operators (com.microsoft): specified by its kernels only, which the tests compare with."""

from __future__ import annotations

from collections.abc import Callable

from ...common.attention_core import index_range, widen
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, INDICES, MICROSOFT, lowers
from ...operator_context import OperatorContext
from ...values import TfTensor, Value, broadcast, computed, map_elements
from ..math.linear import gemm
from .convolution import conv
from .normalization import axes_from_attribute, normalize, normalize_by_root_mean_square


@lowers("Gelu", "BiasGelu", "FastGelu", domain=MICROSOFT, T=FLOATS)
def gelu(op: OperatorContext) -> Value:
    """Lower com.microsoft's Gelu, of a sum if there is a bias: the exact one, by erf; FastGelu by tanh."""
    bias = op.optional(1)
    total = op.value(0) if bias is None else broadcast(tf.add, op.value(0), bias)
    return map_elements(total, lambda t: tf.nn.gelu(t, approximate=op.op_type == "FastGelu"))


@lowers("QuickGelu", domain=MICROSOFT, T=FLOATS)
def quick_gelu(op: OperatorContext) -> Value:
    """Lower QuickGelu: x sigmoid(alpha x)."""
    alpha = op.real("alpha", 1.702)
    return map_elements(op.value(0), lambda t: t * tf.sigmoid(tf.cast(alpha, t.dtype) * t))


@lowers("FusedMatMul", domain=MICROSOFT, T=FLOATS)
def fused_matmul(op: OperatorContext) -> Value:
    """Lower FusedMatMul: alpha A B, matrices transposed where the attributes say so; vectors are never transposed."""
    if op.flag("transBatchA") or op.flag("transBatchB"):
        op.refuse("its attributes transBatchA and transBatchB are not carried", fix="export without this fusion")
    left, right, alpha = op.value(0), op.value(1), op.real("alpha", 1.0)
    if left.rank < 2 or right.rank < 2:
        op.refuse("it multiplies a vector", fix="export without this fusion")
    result = tf.matmul(left.tensor(), right.tensor(), transpose_a=op.flag("transA"), transpose_b=op.flag("transB"))
    return computed(result if alpha == 1 else result * tf.cast(alpha, result.dtype))


@lowers("FusedGemm", domain=MICROSOFT, T=FLOATS)
def fused_gemm(op: OperatorContext) -> Value:
    """Lower FusedGemm: Gemm, and an activation of it."""
    numbers = [op.real(name, 0.0) for name in ("activation_alpha", "activation_beta")]
    op.ignore("activation_gamma", because="none of the activations that are taken has a third number")
    return map_elements(gemm(op), _activation(op, op.text("activation"), numbers))


@lowers("FusedConv", domain=MICROSOFT, T=FLOATS)
def fused_conv(op: OperatorContext) -> Value:
    """Lower FusedConv: Conv, an addend, and an activation of the sum."""
    convolved, addend = conv(op), op.optional(3)
    total = convolved if addend is None else broadcast(tf.add, convolved, addend)
    return map_elements(total, _activation(op, op.text("activation"), op.floats("activation_params", ())))


def _activation(op: OperatorContext, name: str, numbers: list[float]) -> Callable[[TfTensor], TfTensor]:
    """Return an activation by its name in ONNX; LeakyRelu and Clip have numbers."""
    plain = {"Relu": op.kernels.relu, "Sigmoid": tf.sigmoid, "Tanh": tf.tanh, "Softplus": tf.math.softplus}
    wanted = {"LeakyRelu": 1, "Clip": 2}.get(name, 0)
    if len(numbers) < wanted or (name not in plain and not wanted):
        op.refuse(f"its attribute activation is {name!r}, which is not carried", fix="export without this fusion")

    def function(t: TfTensor) -> TfTensor:
        bounds = [tf.cast(number, t.dtype) for number in numbers[:wanted]]
        if name == "LeakyRelu":
            return tf.where(t < 0, t * bounds[0], t)
        return tf.clip_by_value(t, *bounds) if name == "Clip" else plain[name](t)

    return function


@lowers("SimplifiedLayerNormalization", T=FLOATS, V=FLOATS)
@lowers("SimplifiedLayerNormalization", domain=MICROSOFT, T=FLOATS, V=FLOATS)
def simplified_layer_normalization(op: OperatorContext) -> list[Value]:
    """Lower SimplifiedLayerNormalization: RMSNormalization under its older name; also the factor."""
    value, scale = op.value(0), op.value(1)
    if op.integer("stash_type", 1) != 1:
        op.refuse("its attribute stash_type is not 1", fix="export without this fusion")
    normalized, inverse = normalize_by_root_mean_square(
        widen(value.tensor()), axes_from_attribute(op, value), op.real("epsilon", 1e-5)
    )
    return [computed(tf.cast(normalized, scale.dtype) * scale.tensor()).with_sizes_of(value), computed(inverse)]


@lowers("SkipLayerNormalization", domain=MICROSOFT, T=FLOATS)
def skip_layer_normalization(op: OperatorContext) -> list[Value | None]:
    """Lower SkipLayerNormalization: LayerNormalization of a sum of two and a bias; the sum is the fourth output."""
    total = _sum(op, op.optional(4))
    normalized, mean, inverse = normalize(widen(total.tensor()), [total.rank - 1], op.real("epsilon", 1e-12))
    answer = _scale(normalized, op.value(2), op.optional(3), total)
    return [answer, computed(mean), computed(inverse), total]


@lowers("SkipSimplifiedLayerNormalization", domain=MICROSOFT, T=FLOATS)
def skip_simplified_layer_normalization(op: OperatorContext) -> list[Value | None]:
    """Lower SkipSimplifiedLayerNormalization: RMSNormalization of such a sum, which is the fourth output."""
    total = _sum(op, op.optional(3))
    normalized, inverse = normalize_by_root_mean_square(
        widen(total.tensor()), [total.rank - 1], op.real("epsilon", 1e-12)
    )
    return [_scale(normalized, op.value(2), None, total), None, computed(inverse), total]


def _sum(op: OperatorContext, bias: Value | None) -> Value:
    total = broadcast(tf.add, op.value(0), op.value(1)).with_sizes_of(op.value(0))
    return total if bias is None else broadcast(tf.add, total, bias).with_sizes_of(total)


def _scale(normalized: TfTensor, scale: Value, bias: Value | None, like: Value) -> Value:
    """Apply scale and bias, while 16 bits are still 32, in the dtype and with the sizes of `like`."""
    answer = normalized * widen(scale.tensor())
    answer = answer if bias is None else answer + widen(bias.tensor())
    return computed(tf.cast(answer, like.dtype)).with_sizes_of(like)


@lowers("EmbedLayerNormalization", domain=MICROSOFT, T=FLOATS | INDICES)
def embed_layer_normalization(op: OperatorContext) -> list[Value | None]:
    """Lower EmbedLayerNormalization: of embedded words, positions, segments; also the word count, and the sum."""
    op.ignore("mask_index_type", because="it only says whether somebody reads the second output")
    words, positions = op.value(0), op.optional(8)
    at = index_range(words.size(1))[None] if positions is None else positions.tensor()
    total = tf.gather(op.tensor(2), words.tensor()) + tf.gather(op.tensor(3), at)
    segments, of_segments = op.optional(1), op.optional(4)
    if segments is not None and of_segments is not None:
        total = total + tf.gather(of_segments.tensor(), segments.tensor())
    like = computed(total).with_sizes_of(words, [(0, 0), (1, 1)])
    normalized, _, _ = normalize(widen(total), [2], op.real("epsilon", 1e-12))
    return [_scale(normalized, op.value(5), op.value(6), like), _count_words(op, words), like]


def _count_words(op: OperatorContext, words: Value) -> Value:
    """Count the words in the mask: (batch,), int32; 0 without a mask."""
    mask = op.optional(7)
    if mask is None:
        return computed(tf.fill([words.size(0)], 0))
    return computed(tf.reduce_sum(tf.cast(tf.equal(mask.tensor(), 1), tf.int32), 1))
