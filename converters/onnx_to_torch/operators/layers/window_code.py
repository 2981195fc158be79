"""What convolutions and pools share: how their windows move, and the pads around the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....onnx_graph.semantics.window_attributes import window_attributes
from ...values import Expression, as_tuple
from ...writers import CodegenContext


@dataclass(frozen=True, slots=True)
class WindowCode:
    """A window by spatial axis, with pads for F.pad and, where both sides are the same, as torch's own argument."""

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
        """Whether there may be any padding."""
        return self.even is None or any(self.even)


def window_code(op: CodegenContext, x: Expression, kernel: Sequence[int]) -> WindowCode:
    """Return the window of a node over x (N, C, spatial axes)."""
    count = x.rank - 2
    if count not in (1, 2, 3) or len(kernel) != count:
        op.refuse(f"it has {count} spatial axes and a kernel of {len(kernel)}", fix="use one, two or three of them")
    window = window_attributes(op, kernel)
    moves = (window.kernel, window.strides, window.dilations)
    if window.same:
        return WindowCode(*moves, f"same_widths({x}, {', '.join(map(str, moves))}, {window.upper})", None)
    even = all(low == high >= 0 for low, high in window.pads)
    return WindowCode(*moves, pads_code(window.pads), tuple(low for low, _ in window.pads) if even else None)


def pads_code(pads: Sequence[tuple[int, int]]) -> str:
    """Return pads by axis as F.pad takes them: the last axis first."""
    return str([side for pair in reversed(pads) for side in pair])


def unusual_options(*options: tuple[str, Sequence[int], int]) -> list[str]:
    """Return keyword arguments of (name, numbers, default), of those whose numbers are not all the default."""
    return [f"{name}={tuple_or_number(numbers)}" for name, numbers, default in options if set(numbers) != {default}]


def tuple_or_number(numbers: Sequence[int]) -> str:
    """Return a tuple as PyTorch's functions take it: one number where all are the same."""
    return str(numbers[0]) if len(set(numbers)) == 1 else as_tuple(numbers)
