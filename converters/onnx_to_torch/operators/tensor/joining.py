"""Tensors put together and taken apart."""

from __future__ import annotations

from collections.abc import Sequence

from ....onnx_graph.semantics.slice_and_pad import split_arguments
from ...operator_context import Op
from ...values import Part, Value
from ...writers import HELD, Written, writes
from .shape import as_tuple

_MOST_AXES = 64  # a longer vector is no shape


@writes("Concat", since=4, T=HELD)
def concat(op: Op) -> Written:
    """One after the other along an axis."""
    values = op.values()
    axis = op.axis("axis", 1, rank=values[0].rank)
    made = op.let(f"torch.cat([{', '.join(map(str, values))}], {axis})", op.node.outputs[0])
    made.some_parts = _some_parts(values)
    return made


def _some_parts(values: Sequence[Value]) -> list[Part | None]:
    """The sizes among the elements of vectors, so that a shape of which one axis hangs on the data keeps the others."""
    lengths = [value.shape[0] if value.rank == 1 else None for value in values]
    if None in lengths or sum(filter(None, lengths)) > _MOST_AXES or "int" not in values[0].dtype:
        return []
    found: list[Part | None] = []
    for value, length in zip(values, lengths, strict=True):
        found += value.size_parts() or [None] * (length or 0)
    return found if any(part is not None for part in found) else []


@writes("Split", since=2, T=HELD)
def split(op: Op) -> Written:
    """Into parts of the lengths given, or into as many as there are outputs, of which the last may be shorter."""
    value, parts = op.value(0), split_arguments(op)
    lengths = parts.lengths if parts.lengths_at is None else op.sizes(parts.lengths_at, "lengths")
    return _evenly(op, value, parts.axis) if lengths is None else _taken_apart(op, value, parts.axis, lengths)


def _evenly(op: Op, value: Value, axis: int) -> Written:
    size, count = value.size(axis), op.outputs
    each = op.page.combine("//", op.page.combine("+", size, count - 1), count)
    if isinstance(size, int) and isinstance(each, int) and each * (count - 1) < size:
        return op.unpack(f"torch.split({value}, {each}, {axis})", count)
    last = op.page.combine("-", size, op.page.combine("*", each, count - 1))
    return _taken_apart(op, value, axis, [*[each] * (count - 1), last])


def _taken_apart(op: Op, value: Value, axis: int, lengths: Sequence[Part]) -> Written:
    if len(lengths) == 1:
        return value
    return op.unpack(f"torch.split({value}, {as_tuple(lengths)}, {axis})", len(lengths))
