"""Activation functions."""

from __future__ import annotations

from collections.abc import Sequence

from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, lowers
from ...operator_context import OperatorContext
from ...values import TfTensor, Value, broadcast, map_elements


@lowers("Mish", since=18, T=FLOATS)
def mish(op: OperatorContext) -> Value:
    """Lower Mish: x tanh(softplus(x))."""
    return map_elements(op.value(0), lambda t: t * tf.tanh(op.kernels.elementwise("math.softplus")(t)))


@lowers("HardSwish", since=14, T=FLOATS)
def hard_swish(op: OperatorContext) -> Value:
    """Lower HardSwish: x relu6(x + 3) / 6, the form that runtimes fuse into one kernel."""
    return map_elements(op.value(0), lambda t: t * tf.nn.relu6(t + tf.cast(3, t.dtype)) * tf.cast(1 / 6, t.dtype))


@lowers("HardSigmoid", since=6, T=FLOATS)
def hard_sigmoid(op: OperatorContext) -> Value:
    """Lower HardSigmoid: max(0, min(1, alpha x + beta))."""
    alpha, beta = op.real("alpha", 0.2), op.real("beta", 0.5)

    def function(t: TfTensor) -> TfTensor:
        if abs(alpha - 1 / 6) < 1e-7 and beta == 0.5:  # the form that runtimes fuse
            return tf.nn.relu6(t + tf.cast(3, t.dtype)) * tf.cast(1 / 6, t.dtype)
        line = t * tf.cast(alpha, t.dtype) + tf.cast(beta, t.dtype)
        return tf.clip_by_value(line, tf.cast(0, t.dtype), tf.cast(1, t.dtype))

    return map_elements(op.value(0), function, non_negative=True)


@lowers("LeakyRelu", since=6, T=FLOATS)
def leaky_relu(op: OperatorContext) -> Value:
    """Lower LeakyRelu: x, or alpha x below zero; alpha may be above 1 or negative."""
    alpha = op.real("alpha", 0.01)
    if 0 <= alpha <= 1:
        return map_elements(op.value(0), lambda t: tf.nn.leaky_relu(t, alpha))
    return map_elements(op.value(0), lambda t: tf.where(t < 0, t * tf.cast(alpha, t.dtype), t))


@lowers("PRelu", since=7, T=FLOATS)
def prelu(op: OperatorContext) -> Value:
    """Lower PRelu: x, or slope x below zero; the slope broadcasts to x."""
    return broadcast(lambda t, slope: tf.where(t < 0, t * slope, t), op.value(0), op.value(1))


@lowers("Elu", since=6, T=FLOATS)
def elu(op: OperatorContext) -> Value:
    """Lower Elu: x, or alpha (exp(x) - 1) below zero."""
    alpha = op.real("alpha", 1.0)
    if alpha == 1:
        return map_elements(op.value(0), tf.nn.elu)
    return map_elements(op.value(0), lambda t: tf.where(t < 0, tf.cast(alpha, t.dtype) * tf.nn.elu(t), t))


@lowers("Celu", since=12, until=28, T=FLOATS)
def celu(op: OperatorContext) -> Value:
    """Lower Celu: max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    alpha = op.real("alpha", 1.0)

    def function(t: TfTensor) -> TfTensor:
        scale = tf.cast(alpha, t.dtype)
        grown = t / scale
        return tf.where(t < 0, scale * (tf.nn.elu(grown) if alpha > 0 else tf.exp(grown) - 1), t)

    return map_elements(op.value(0), function)


@lowers("Selu", since=6, T=FLOATS)
def selu(op: OperatorContext) -> Value:
    """Lower Selu: gamma x, or gamma alpha (exp(x) - 1) below zero. The defaults are those of the specification."""
    alpha, gamma = op.real("alpha", 1.6732632), op.real("gamma", 1.0507010)
    return map_elements(
        op.value(0),
        lambda t: tf.cast(gamma, t.dtype) * tf.where(t < 0, tf.cast(alpha, t.dtype) * tf.nn.elu(t), t),
    )


@lowers("ThresholdedRelu", since=10, T=FLOATS)
def thresholded_relu(op: OperatorContext) -> Value:
    """Lower ThresholdedRelu: x above alpha, and else 0."""
    alpha = op.real("alpha", 1.0)
    return map_elements(op.value(0), lambda t: tf.where(t > tf.cast(alpha, t.dtype), t, tf.zeros_like(t)))


@lowers("Shrink", since=9, T=FLOATS)
def shrink(op: OperatorContext) -> Value:
    """Lower Shrink: x + bias below -lambd, x - bias above lambd, 0 between."""
    bias, lambd = op.real("bias", 0.0), op.real("lambd", 0.5)

    def function(t: TfTensor) -> TfTensor:
        b, edge = tf.cast(bias, t.dtype), tf.cast(lambd, t.dtype)
        return tf.where(t < -edge, t + b, tf.where(t > edge, t - b, tf.zeros_like(t)))

    return map_elements(op.value(0), function)


@lowers("Gelu", since=20, T=FLOATS)
def gelu(op: OperatorContext) -> Value:
    """Lower Gelu: x Phi(x), exact by erf or by the tanh formula, whichever the model has."""
    approximate = op.word("approximate", "none", ("none", "tanh")) == "tanh"
    return map_elements(op.value(0), lambda t: tf.nn.gelu(t, approximate=approximate))


@lowers("Swish", since=24, T=FLOATS)
def swish(op: OperatorContext) -> Value:
    """Lower Swish: x sigmoid(alpha x)."""
    alpha = op.real("alpha", 1.0)
    return map_elements(op.value(0), lambda t: t * tf.sigmoid(tf.cast(alpha, t.dtype) * t))


@lowers("Dropout", since=12, T=FLOATS, T1=FLOATS, T2=frozenset({"bool"}))
def dropout(op: OperatorContext) -> Sequence[Value]:
    """Lower Dropout, which keeps all in inference; a model that was exported in training and drops is refused."""
    op.ignore("seed", because="nothing is drawn")
    training = op.optional_array(2, "training_mode")
    if training is not None and bool(training):
        ratio = op.optional_array(1, "ratio")
        if ratio is None or ratio.item() != 0:
            op.refuse("it was exported in training mode", fix="call eval() on the model before you export it")
    op.ignore_input(1, because="the ratio only matters in training")
    return _all_kept(op)


@lowers("Dropout", since=7, until=11, T=FLOATS)
def dropout_before_12(op: OperatorContext) -> Sequence[Value]:
    """Lower Dropout before opset 12, which had no training mode."""
    op.ignore("ratio", because="it only matters in training")
    return _all_kept(op)


def _all_kept(op: OperatorContext) -> Sequence[Value]:
    """Return the input, and where it is read a mask that keeps everything: of bools since opset 10."""
    if not op.wants(1):
        return [op.value(0)]
    dtype = tf.bool if op.node.version >= 10 else op.value(0).dtype
    return [op.value(0), map_elements(op.value(0), lambda t: tf.ones(tf.shape(t), dtype))]
