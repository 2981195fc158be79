"""Parts of a tensor by their places."""

from __future__ import annotations

from ....onnx_graph.semantics.slice_and_pad import slice_arguments
from ...operator_context import Op
from ...values import Part
from ...writers import HELD, Written, writes

_FAR = 2**31 - 1  # what exporters write for "to the end" is this or more


@writes("Slice", since=1, T=HELD)
def slice_axes(op: Op) -> Written:
    """From starts to ends along axes, by steps; both are cut to the axis as Python does."""
    parts = slice_arguments(op)
    value = op.value(0)
    rows = list(zip(parts.axes, parts.starts, parts.ends, parts.steps, strict=True))
    places = {axis: _place(start, end) for axis, start, end, step in rows if step > 0}
    places = {axis: place + (f":{step}" if step > 1 else "") for (axis, _, _, step) in rows if step > 0
              for place in (places[axis],)}  # fmt: skip
    made = f"{value}"
    if any(place != ":" for place in places.values()):
        last = max(axis for axis, place in places.items() if place != ":")
        made = f"{value}[{', '.join(places.get(axis, ':') for axis in range(last + 1))}]"
    for axis, start, end, step in rows:
        if step < 0:
            whole = start in (-1, _FAR) or (isinstance(start, int) and start >= _FAR)
            to_first = isinstance(end, int) and end <= -_FAR
            made = f"{made}.flip({axis})" if whole and to_first and step == -1 else (
                f"backwards({made}, {axis}, {start}, {end}, {step})")  # fmt: skip
    return value if made == f"{value}" else made


def _place(start: Part, end: Part) -> str:
    first = "" if start == 0 else f"{start}"
    last = "" if isinstance(end, int) and end >= _FAR else f"{end}"
    return f"{first}:{last}"
