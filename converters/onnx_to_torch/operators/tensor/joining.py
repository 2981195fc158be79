"""Tensors put together and taken apart."""

from __future__ import annotations

from collections.abc import Sequence

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


@writes("Split", since=18, T=HELD)
def split(op: Op) -> Written:
    """Into parts of the lengths given, or into as many as there are outputs, of which the last may be shorter."""
    value = op.value(0)
    axis = op.axis("axis", 0, rank=value.rank)
    if op.given(1):
        return _taken_apart(op, value, axis, op.sizes(1, "lengths"))
    count = op.integer("num_outputs", op.outputs)
    if count != op.outputs:
        op.refuse(f"it has {op.outputs} outputs and num_outputs {count}", fix="check the model with onnx.checker")
    return _evenly(op, value, axis)


@writes("Split", since=13, until=17, T=HELD)
def split_evenly(op: Op) -> Written:
    """Before opset 18 parts without lengths were equal."""
    value = op.value(0)
    axis = op.axis("axis", 0, rank=value.rank)
    return _taken_apart(op, value, axis, op.sizes(1, "lengths")) if op.given(1) else _evenly(op, value, axis)


@writes("Split", since=2, until=12, T=HELD)
def split_by_attribute(op: Op) -> Written:
    """Before opset 13 the lengths were an attribute."""
    value = op.value(0)
    axis = op.axis("axis", 0, rank=value.rank)
    return _taken_apart(op, value, axis, op.ints("split")) if op.has("split") else _evenly(op, value, axis)


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
