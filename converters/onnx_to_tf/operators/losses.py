"""Losses of a classification: (batch, classes, ...) against the classes' numbers, (batch, ...)."""

from __future__ import annotations

from ..attend import widened
from ..lazy import tf
from ..reader import Op
from ..registry import FLOATS, INDICES, lowers
from ..values import TfTensor, Value, computed, product, reshape


@lowers("NegativeLogLikelihoodLoss", since=12, T=FLOATS, Tind=INDICES)
def negative_log_likelihood_loss(op: Op) -> Value:
    """Minus the logarithm that stands at each target's class, by the class's weight; each, summed, or averaged."""
    return _loss(op, widened(op.tensor(0)))


@lowers("SoftmaxCrossEntropyLoss", since=12, T=FLOATS, Tind=INDICES)
def softmax_cross_entropy_loss(op: Op) -> list[Value]:
    """The same of scores, whose logarithms by softmax over the classes are the second output."""
    value = op.value(0)
    logarithms = tf.nn.log_softmax(widened(value.tensor()), 1)
    return [_loss(op, logarithms), computed(tf.cast(logarithms, value.dtype)).as_long_as(value)]


def _loss(op: Op, logarithms: TfTensor) -> Value:
    """An average is over the weights of what is not ignored."""
    value, target = op.value(0), op.value(1)
    wanted = tf.cast(target.tensor(), tf.int32)
    counts = tf.ones_like(wanted, logarithms.dtype)
    if op.has("ignore_index"):
        heeded = tf.not_equal(wanted, op.integer("ignore_index"))
        wanted = tf.where(heeded, wanted, tf.zeros_like(wanted))  # it need not be a class
        counts = tf.cast(heeded, logarithms.dtype)
    weight = op.optional(2)
    if weight is not None:
        counts = counts * tf.gather(widened(weight.tensor()), wanted)
    loss = -_picked(value, logarithms, wanted) * counts
    reduction = op.word("reduction", "mean", ("none", "sum", "mean"))
    if reduction == "mean":
        loss = tf.reduce_sum(loss) / tf.reduce_sum(counts)
    elif reduction == "sum":
        loss = tf.reduce_sum(loss)
    return computed(tf.cast(loss, value.dtype))


def _picked(value: Value, logarithms: TfTensor, wanted: TfTensor) -> TfTensor:
    """Of each place the number that stands at its class. One row for each place, whatever the rank is."""
    batch, classes, *places = (value.size(axis) for axis in range(value.rank))
    rows = tf.transpose(reshape(logarithms, [batch, classes, product(places)]), (0, 2, 1))
    rows = reshape(rows, [product([batch, *places]), classes])
    picked = tf.gather(rows, tf.reshape(wanted, [-1]), batch_dims=1)
    return reshape(picked, [batch, *places])
