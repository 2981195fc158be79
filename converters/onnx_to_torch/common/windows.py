"""What convolutions and pools share: how their windows move, and what lies around the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    strides = tuple(op.ints("strides", [1] * count))
    dilations = tuple(op.ints("dilations", [1] * count))
    kind = op.word("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if kind.startswith("SAME"):
        if op.has("pads"):
            op.ignore("pads", because="auto_pad decides")
        widths = f"same_widths({x}, {tuple(kernel)}, {strides}, {dilations}, {kind == 'SAME_UPPER'})"
        return Windows(tuple(kernel), strides, dilations, widths, None)
    pads = read_pads(op, kind, count)
    return Windows(tuple(kernel), strides, dilations, flat(pads), _even(pads))


def read_pads(op: Op, kind: str, count: int) -> list[int]:
    """The attribute pads: before each of `count` axes, then after each. `kind`: what auto_pad is."""
    pads = op.ints("pads", [0] * (2 * count))
    if kind == "VALID" and any(pads):
        op.refuse("it has both auto_pad and pads", fix="check the model with onnx.checker")
    return pads


def _even(pads: Sequence[int]) -> tuple[int, ...] | None:
    half = len(pads) // 2
    same = list(pads[:half]) == list(pads[half:]) and min(pads, default=0) >= 0
    return tuple(pads[:half]) if same else None


def flat(pads: Sequence[int]) -> str:
    """ONNX's pads as F.pad takes them."""
    half = len(pads) // 2
    return str([each for at in reversed(range(half)) for each in (pads[at], pads[at + half])])


def short(numbers: Sequence[int]) -> str:
    """A tuple as PyTorch's functions take it: one number where all are the same."""
    return str(numbers[0]) if len(set(numbers)) == 1 else listed(tuple(numbers))
