"""Slice, Split, Concat and Pad of whole tensors; the padding of convolutions and pools lies with them."""

from __future__ import annotations

from collections.abc import Sequence

from ....onnx_graph.semantics.former_attributes import pad_arguments, slice_arguments, split_arguments
from ...safe_names import scalar
from ...values import Expression, SizeTerm, as_tuple
from ...writers import HELD, CodegenContext, OutputCode, writes

_FAR = 2**31 - 1  # exporters write this or more for "to the end"
_MOST_AXES = 64  # a longer vector is no shape


@writes("Slice", since=1, T=HELD)
def slice_axes(op: CodegenContext) -> OutputCode:
    """Write Slice: from starts to ends along axes, by steps; both are cut to the axis as Python does."""
    parts = slice_arguments(op)
    value = op.value(0)
    rows = list(zip(parts.axes, parts.starts, parts.ends, parts.steps, strict=True))
    places = {axis: _place(start, end, step) for axis, start, end, step in rows if step > 0}
    code = f"{value}"
    if any(place != ":" for place in places.values()):
        last = max(axis for axis, place in places.items() if place != ":")
        code = f"{value}[{', '.join(places.get(axis, ':') for axis in range(last + 1))}]"
    for axis, start, end, step in rows:
        if step < 0:
            from_last = start == -1 or (isinstance(start, int) and start >= _FAR)
            turns = from_last and isinstance(end, int) and end <= -_FAR and step == -1
            code = f"{code}.flip({axis})" if turns else f"backwards({code}, {axis}, {start}, {end}, {step})"
    return value if code == f"{value}" else code


def _place(start: SizeTerm, end: SizeTerm, step: int) -> str:
    first = "" if start == 0 else f"{start}"
    last = "" if isinstance(end, int) and end >= _FAR else f"{end}"
    return f"{first}:{last}:{step}" if step > 1 else f"{first}:{last}"


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


@writes("Pad", since=2, T=HELD)
def pad(op: CodegenContext) -> OutputCode:
    """Write Pad: before and after each of the axes named, or of all; negative pads cut."""
    x, padding = op.value(0), pad_arguments(op)
    mode = padding.mode
    low: list[SizeTerm] = [0] * x.rank
    high: list[SizeTerm] = [0] * x.rank
    for axis, (before, after) in zip(padding.axes, padding.widths, strict=True):
        low[axis], high[axis] = before, after  # type: ignore[index]  # this back-end reads no computed axes
    if all(part == 0 for part in (*low, *high)):
        return x
    if mode == "constant":
        widths = f"[{', '.join(f'{low[at]}, {high[at]}' for at in _inner_first(low, high))}]"
        return _with_number(op, x, widths, padding.number)
    if _torch_mirrors(x, low, high, mode):
        widths = f"[{', '.join(f'{low[at]}, {high[at]}' for at in reversed(range(2, x.rank)))}]"
        return f'F.pad({x}, {widths}, mode="{"replicate" if mode == "edge" else mode}")'
    both = ", ".join(map(str, (*low, *high)))
    return f'surrounded({x}, ({both}), "{mode}")'


def _inner_first(low: Sequence[SizeTerm], high: Sequence[SizeTerm]) -> list[int]:
    first = next(at for at in range(len(low)) if (low[at], high[at]) != (0, 0))
    return list(reversed(range(first, len(low))))


def _with_number(op: CodegenContext, x: Expression, widths: str, number: Expression | None) -> OutputCode:
    if number is None or number.scalar is not None:
        literal = "0" if number is None or number.array is None else scalar(number.array.reshape(()).item(), x.dtype)
        return f"F.pad({x}, {widths})" if literal in ("0", "0.0", "False") else f"F.pad({x}, {widths}, value={literal})"
    inside = op.let(f"F.pad(torch.ones_like({x}, dtype=torch.bool), {widths})", "inside")
    return f"torch.where({inside}, F.pad({x}, {widths}), {number})"


def _torch_mirrors(x: Expression, low: Sequence[SizeTerm], high: Sequence[SizeTerm], mode: str) -> bool:
    """Return whether F.pad computes it: images of floats, reflected once."""
    if mode == "wrap" or x.dtype not in ("float32", "float64") or x.rank not in (3, 4, 5):
        return False
    if any((low[at], high[at]) != (0, 0) for at in (0, 1)):
        return False
    rows = zip(low[2:], high[2:], x.shape[2:], strict=True)
    return all(
        isinstance(a, int)
        and isinstance(b, int)
        and min(a, b) >= 0
        and (mode == "edge" or (size is not None and max(a, b) < size))
        and size != 0
        for a, b, size in rows
    )
