"""Parts of a tensor by their places."""

from __future__ import annotations

from collections.abc import Sequence

from ...operator_context import Op
from ...values import Part
from ...writers import HELD, Written, writes

_FAR = 2**31 - 1  # what exporters write for "to the end" is this or more


@writes("Slice", since=10, T=HELD)
def slice_by_inputs(op: Op) -> Written:
    """From starts to ends along axes, by steps; both are cut to the axis as Python does."""
    starts, ends = op.sizes(1, "starts"), op.sizes(2, "ends")
    axes = op.integers(3, "axes") if op.given(3) else range(len(starts))
    steps = op.integers(4, "steps") if op.given(4) else [1] * len(starts)
    return _sliced(op, starts, ends, axes, steps)


@writes("Slice", since=1, until=9, T=HELD)
def slice_by_attributes(op: Op) -> Written:
    """Before opset 10 they were attributes, and there were no steps."""
    starts, ends = op.ints("starts"), op.ints("ends")
    axes = op.ints("axes", range(len(starts)))
    return _sliced(op, starts, ends, axes, [1] * len(starts))


def _sliced(op: Op, starts: Sequence[Part], ends: Sequence[Part], axes: Sequence[int], steps: Sequence[int]) -> Written:
    value = op.value(0)
    rows = list(zip((op.placed(axis, value.rank) for axis in axes), starts, ends, steps, strict=True))
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
