"""Tensors joined, repeated and taken apart."""

from __future__ import annotations

from collections.abc import Sequence

from ...lazy_tensorflow import tf
from ...lowerings import ANY, lowers
from ...operator_context import Op
from ...values import Layout, Size, Value, as_int32, computed, ranked


@lowers("Tile", since=6, T=ANY, T1=frozenset({"int64"}))
def tile(op: Op) -> Value:
    """The value repeated along each axis."""
    value, repeats = op.value(0), op.value(1)
    counts = as_int32(repeats.tensor()) if repeats.array is None else op.integers(1, "repeats")
    return computed(ranked(tf.tile(value.tensor(), counts), value.rank))


@lowers("Concat", since=4, T=ANY)
def concat(op: Op) -> Value:
    """Joined along an axis; channels stay last where one of the values has them so."""
    values, axis = op.values(), op.integer("axis")
    parts = _joined_parts(values)
    if parts is not None and all(value.size_parts(exact=True) is not None for value in values):
        return op.sized(parts, dtype=values[0].dtype)
    rank = values[0].rank
    last = any(value.layout is Layout.CHANNELS_LAST for value in values)
    layout = Layout.CHANNELS_LAST if last else Layout.LOGICAL
    place = layout.place(axis % rank, rank)
    answer = computed(tf.concat([value.tensor(layout) for value in values], place), layout)
    answer.non_negative = all(value.non_negative for value in values)
    answer.parts = parts  # beside the tensor, which has the numbers that exceed a size
    return answer.as_long_as(values[0], [(at, at) for at in range(rank) if at != axis % rank])


_MOST_PARTS = 32  # sizes, pads or ends of all axes; longer vectors of whole numbers are data


def _joined_parts(values: Sequence[Value]) -> tuple[Size, ...] | None:
    """The elements of all vectors where some are sizes, or are known beside others that the model computes: what a pad
    or a shape says of the one axis must not be forgotten for what it computes of another."""
    if all(value.parts is None and value.array is None for value in values):
        return None
    if any(value.rank != 1 or (value.shape[0] or 0) > _MOST_PARTS for value in values):
        return None
    joined = [value.size_parts() for value in values]
    return None if None in joined else tuple(part for parts in joined for part in parts or ())


@lowers("Split", since=18, T=ANY)
def split_by_input_or_count(op: Op) -> list[Value]:
    """By sizes, or into num_outputs equal parts of which the last may be smaller."""
    if op.optional(1) is not None:
        return _split_by_sizes(op)
    value, count = op.value(0), op.integer("num_outputs")
    whole = value.size(op.integer("axis", 0) % value.rank)
    step = -(-whole // count)
    if isinstance(whole, int) and whole < step * (count - 1):
        op.refuse(f"an axis of size {whole} has no {count} parts of size {step}", fix="check the model")
    return _split(op, [step] * (count - 1) + [whole - step * (count - 1)])


@lowers("Split", since=13, until=17, T=ANY)
def split_by_input(op: Op) -> list[Value]:
    """By sizes, or into equal parts, one for each output."""
    return _split(op, op.outputs) if op.optional(1) is None else _split_by_sizes(op)


@lowers("Split", since=2, until=12, T=ANY)
def split_by_attribute(op: Op) -> list[Value]:
    """Before opset 13 the sizes were an attribute."""
    return _split(op, op.ints("split") if op.has("split") else op.outputs)


def _split_by_sizes(op: Op) -> list[Value]:
    parts = op.value(1).size_parts()
    if parts is None:  # there is one for each output
        vector = as_int32(op.tensor(1))
        parts = tuple(vector[at] for at in range(op.outputs))
    return _split(op, parts)


def _split(op: Op, parts: Sequence[Size] | int) -> list[Value]:
    """Into parts of these sizes, or into so many equal ones."""
    value = op.value(0)
    axis = op.integer("axis", 0) % value.rank
    place, tensor = value.place(axis), value.tensor(value.layout)
    if not isinstance(parts, int) and not all(isinstance(part, int) for part in parts):
        pieces = tf.split(tensor, tf.stack(list(parts)), place, num=len(parts))
    else:
        pieces = tf.split(tensor, parts, place)
    others = [(at, at) for at in range(value.rank) if at != axis]
    return [
        computed(piece, value.layout, non_negative=value.non_negative).as_long_as(value, others) for piece in pieces
    ]
