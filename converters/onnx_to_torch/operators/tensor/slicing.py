"""Parts of a tensor by their places."""

from __future__ import annotations

from ....onnx_graph.semantics.slice_and_pad import slice_arguments
from ...operator_context import CodegenContext
from ...values import SizeTerm
from ...writers import HELD, OutputCode, writes

_FAR = 2**31 - 1  # exporters write this or more for "to the end"


@writes("Slice", since=1, T=HELD)
def slice_axes(op: CodegenContext) -> OutputCode:
    """Write Slice: from starts to ends along axes, by steps; both are cut to the axis as Python does."""
    parts = slice_arguments(op)
    value = op.value(0)
    rows = list(zip(parts.axes, parts.starts, parts.ends, parts.steps, strict=True))
    places = {axis: _place(start, end) for axis, start, end, step in rows if step > 0}
    places = {axis: place + (f":{step}" if step > 1 else "") for (axis, _, _, step) in rows if step > 0
              for place in (places[axis],)}  # fmt: skip
    code = f"{value}"
    if any(place != ":" for place in places.values()):
        last = max(axis for axis, place in places.items() if place != ":")
        code = f"{value}[{', '.join(places.get(axis, ':') for axis in range(last + 1))}]"
    for axis, start, end, step in rows:
        if step < 0:
            is_whole = start in (-1, _FAR) or (isinstance(start, int) and start >= _FAR)
            to_first = isinstance(end, int) and end <= -_FAR
            code = f"{code}.flip({axis})" if is_whole and to_first and step == -1 else (
                f"backwards({code}, {axis}, {start}, {end}, {step})")  # fmt: skip
    return value if code == f"{value}" else code


def _place(start: SizeTerm, end: SizeTerm) -> str:
    first = "" if start == 0 else f"{start}"
    last = "" if isinstance(end, int) and end >= _FAR else f"{end}"
    return f"{first}:{last}"
