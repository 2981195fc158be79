"""Losses of a classification: (batch, classes, ...) against the classes' numbers, (batch, ...)."""

from __future__ import annotations

from ...common.attention_core import widen
from ...lazy_tensorflow import tf
from ...lowerings import FLOATS, INDICES, lowers
from ...operator_context import OperatorContext
from ...values import TfTensor, Value, computed, product, reshape


@lowers("NegativeLogLikelihoodLoss", since=12, T=FLOATS, Tind=INDICES)
def negative_log_likelihood_loss(op: OperatorContext) -> Value:
    """Lower NegativeLogLikelihoodLoss: minus each target's logarithm by its weight; single, summed or averaged."""
    return _loss(op, _rows(op.value(0)))


@lowers("SoftmaxCrossEntropyLoss", since=12, T=FLOATS, Tind=INDICES)
def softmax_cross_entropy_loss(op: OperatorContext) -> list[Value]:
    """Lower SoftmaxCrossEntropyLoss: that loss of scores; their logarithms by softmax are the second output."""
    value = op.value(0)
    logarithms = tf.nn.log_softmax(_rows(value), -1)
    batch, classes, *places = (value.size(axis) for axis in range(value.rank))
    turned = tf.transpose(reshape(logarithms, [batch, product(places), classes]), (0, 2, 1))
    log_probabilities = computed(reshape(tf.cast(turned, value.dtype), [batch, classes, *places]))
    return [_loss(op, logarithms), log_probabilities.with_sizes_of(value)]


def _rows(value: Value) -> TfTensor:
    """Return (batch, classes, ...) as (places, classes), float32 or float64: all kernels take so few axes."""
    batch, classes, *places = (value.size(axis) for axis in range(value.rank))
    flat = widen(reshape(value.tensor(), [batch, classes, product(places)]))
    return reshape(tf.transpose(flat, (0, 2, 1)), [product([batch, *places]), classes])


def _loss(op: OperatorContext, logarithms: TfTensor) -> Value:
    """Return the loss of (places, classes). An average is over the weights of the targets that are not ignored."""
    value, target = op.value(0), op.value(1)
    wanted = tf.reshape(tf.cast(target.tensor(), tf.int32), [-1])
    counts = tf.ones_like(wanted, logarithms.dtype)
    if op.has("ignore_index"):
        heeded = tf.not_equal(wanted, op.integer("ignore_index"))
        wanted = tf.where(heeded, wanted, tf.zeros_like(wanted))  # it need not be a class
        counts = tf.cast(heeded, logarithms.dtype)
    weight = op.optional(2)
    if weight is not None:
        counts = counts * tf.gather(widen(weight.tensor()), wanted)
    loss = -tf.gather(logarithms, wanted, batch_dims=1) * counts
    reduction = op.word("reduction", "mean", ("none", "sum", "mean"))
    if reduction == "none":
        losses = reshape(loss, [value.size(axis) for axis in range(value.rank) if axis != 1])
        return computed(tf.cast(losses, value.dtype))
    total = tf.reduce_sum(loss)
    return computed(tf.cast(total / tf.reduce_sum(counts) if reduction == "mean" else total, value.dtype))
