"""Tensors joined and taken apart."""

from __future__ import annotations

from collections.abc import Sequence

from ....onnx_graph.semantics.slice_and_pad import split_arguments
from ...operator_context import CodegenContext
from ...statements import as_tuple
from ...values import Expression, SizeTerm
from ...writers import HELD, OutputCode, writes

_MOST_AXES = 64  # a longer vector is no shape


@writes("Concat", since=4, T=HELD)
def concat(op: CodegenContext) -> OutputCode:
    """Write Concat."""
    values = op.values()
    axis = op.axis("axis", 1, rank=values[0].rank)
    joined = op.let(f"torch.cat([{', '.join(map(str, values))}], {axis})", op.node.outputs[0])
    joined.some_parts = _some_parts(values)
    return joined


def _some_parts(values: Sequence[Expression]) -> list[SizeTerm | None]:
    """Return the sizes among the elements of vectors: a shape with an axis that is data keeps its other sizes."""
    lengths = [value.shape[0] if value.rank == 1 else None for value in values]
    if None in lengths or sum(filter(None, lengths)) > _MOST_AXES or "int" not in values[0].dtype:
        return []
    parts: list[SizeTerm | None] = []
    for value, length in zip(values, lengths, strict=True):
        parts += value.size_parts() or [None] * (length or 0)
    return parts if any(part is not None for part in parts) else []


@writes("Split", since=2, T=HELD)
def split(op: CodegenContext) -> OutputCode:
    """Write Split: into the listed lengths, or into equal parts of which the last may be shorter."""
    value, parts = op.value(0), split_arguments(op)
    lengths = parts.lengths if parts.lengths_at is None else op.sizes(parts.lengths_at, "lengths")
    return _evenly(op, value, parts.axis) if lengths is None else _taken_apart(op, value, parts.axis, lengths)


def _evenly(op: CodegenContext, value: Expression, axis: int) -> OutputCode:
    size, count = value.size(axis), op.outputs
    length = op.writer.combine("//", op.writer.combine("+", size, count - 1), count)
    if isinstance(size, int) and isinstance(length, int) and length * (count - 1) < size:
        return op.unpack(f"torch.split({value}, {length}, {axis})", count)
    last = op.writer.combine("-", size, op.writer.combine("*", length, count - 1))
    return _taken_apart(op, value, axis, [*[length] * (count - 1), last])


def _taken_apart(op: CodegenContext, value: Expression, axis: int, lengths: Sequence[SizeTerm]) -> OutputCode:
    if len(lengths) == 1:
        return value
    return op.unpack(f"torch.split({value}, {as_tuple(lengths)}, {axis})", len(lengths))
