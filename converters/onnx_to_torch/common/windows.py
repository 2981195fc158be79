"""What convolutions and pools share: how their windows move, and what lies around the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...onnx_graph.semantics.window_attributes import window_attributes
from ..operator_context import Op
from ..values import Value, listed


@dataclass(frozen=True, slots=True)
class Windows:
    """Of each spatial axis. `widths`: what F.pad takes (the last axis first), as code; `even`: what torch takes itself,
    where it is the same on both sides."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    widths: str
    even: tuple[int, ...] | None

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel)

    @property
    def padded(self) -> bool:
        """Whether there is anything around the picture."""
        return self.even is None or any(self.even)


def windows(op: Op, x: Value, kernel: Sequence[int]) -> Windows:
    """The windows of a node with these attributes, over (N, C, spatial axes)."""
    count = x.rank - 2
    if count not in (1, 2, 3) or len(kernel) != count:
        op.refuse(f"it has {count} spatial axes and a kernel of {len(kernel)}", fix="use one, two or three of them")
    window = window_attributes(op, kernel)
    moves = (window.kernel, window.strides, window.dilations)
    if window.same:
        return Windows(*moves, f"same_widths({x}, {', '.join(map(str, moves))}, {window.upper})", None)
    return Windows(*moves, flat(window.pads), _even(window.pads))


def _even(pads: Sequence[tuple[int, int]]) -> tuple[int, ...] | None:
    return tuple(low for low, _ in pads) if all(low == high >= 0 for low, high in pads) else None


def flat(pads: Sequence[tuple[int, int]]) -> str:
    """ONNX's pads as F.pad takes them."""
    return str([side for pair in reversed(pads) for side in pair])


def short(numbers: Sequence[int]) -> str:
    """A tuple as PyTorch's functions take it: one number where all are the same."""
    return str(numbers[0]) if len(set(numbers)) == 1 else listed(tuple(numbers))
