"""Tensors joined, repeated and split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....onnx_graph.semantics.former_attributes import split_arguments
from ...lazy_tensorflow import tf
from ...lowerings import ANY, lowers
from ...operator_context import OperatorContext
from ...values import Layout, Size, Value, as_int32, computed, with_rank


@lowers("Tile", since=6, T=ANY, T1=frozenset({"int64"}))
def tile(op: OperatorContext) -> Value:
    """Lower Tile: the value repeated along each axis."""
    value, repeats = op.value(0), op.value(1)
    counts = as_int32(repeats.tensor()) if repeats.array is None else op.integers(1, "repeats")
    return computed(with_rank(tf.tile(value.tensor(), counts), value.rank))


@lowers("Concat", since=4, T=ANY)
def concat(op: OperatorContext) -> Value:
    """Lower Concat: joined along an axis; channels stay last where one of the values has them so."""
    values, axis = op.values(), op.integer("axis")
    parts = _joined_parts(values)
    if parts is not None and all(value.size_parts(exact=True) is not None for value in values):
        return op.sized(parts, dtype=values[0].dtype)
    rank = values[0].rank
    last = any(value.layout is Layout.CHANNELS_LAST for value in values)
    layout = Layout.CHANNELS_LAST if last else Layout.LOGICAL
    place = layout.place(axis % rank, rank)
    native = tf.concat([value.tensor(layout) for value in values], place)
    answer = computed(native, layout, non_negative=all(value.non_negative for value in values))
    answer = replace(answer, parts=parts)  # beside the tensor, which has the numbers that exceed a size
    return answer.with_sizes_of(values[0], [(at, at) for at in range(rank) if at != axis % rank])


_MOST_PARTS = 32  # sizes, pads or ends of all axes; longer vectors of whole numbers are data


def _joined_parts(values: Sequence[Value]) -> tuple[Size, ...] | None:
    """Return the elements of all vectors where some are sizes, or are known beside others that the model computes.

    What is known of a pad or a shape for one axis must survive that it is computed for another.
    """
    if all(value.parts is None and value.array is None for value in values):
        return None
    if any(value.rank != 1 or (value.shape[0] or 0) > _MOST_PARTS for value in values):
        return None
    joined = [value.size_parts() for value in values]
    return None if None in joined else tuple(part for parts in joined for part in parts or ())


@lowers("Split", since=2, T=ANY)
def split(op: OperatorContext) -> list[Value]:
    """Lower Split: parts of listed lengths, or as many as there are outputs; since opset 18 the last may be shorter."""
    value, parts = op.value(0), split_arguments(op)
    if parts.lengths is not None:
        return _split(op, parts.axis, parts.lengths)
    if parts.lengths_at is not None:
        return _split(op, parts.axis, _computed_lengths(op, op.value(parts.lengths_at)))
    if op.version < 18:
        return _split(op, parts.axis, parts.count)
    length, count = value.size(parts.axis), parts.count
    step = -(-length // count)
    if isinstance(length, int) and length < step * (count - 1):
        op.refuse(f"an axis of size {length} has no {count} parts of size {step}", fix="check the model")
    return _split(op, parts.axis, [step] * (count - 1) + [length - step * (count - 1)])


def _computed_lengths(op: OperatorContext, lengths: Value) -> Sequence[Size]:
    parts = lengths.size_parts()
    if parts is not None:
        return parts
    vector = as_int32(lengths.tensor())  # there is one for each output
    return [vector[at] for at in range(op.outputs)]


def _split(op: OperatorContext, axis: int, parts: Sequence[Size] | int) -> list[Value]:
    """Split into parts of these sizes, or into so many equal ones."""
    value = op.value(0)
    place, tensor = value.place(axis), value.tensor(value.layout)
    if not isinstance(parts, int) and not all(isinstance(part, int) for part in parts):
        pieces = tf.split(tensor, tf.stack(list(parts)), place, num=len(parts))
    else:
        pieces = tf.split(tensor, parts, place)
    other_axes = [(at, at) for at in range(value.rank) if at != axis]
    return [
        computed(piece, value.layout, non_negative=value.non_negative).with_sizes_of(value, other_axes)
        for piece in pieces
    ]
