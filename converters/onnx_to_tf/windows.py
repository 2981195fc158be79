"""What convolutions and pools share: a window that moves over the spatial axes, and the padding around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .reader import Op
from .values import Value


@dataclass(frozen=True, slots=True)
class Window:
    """All along the spatial axes, in the logical order. A dilated kernel reaches over (kernel - 1) dilation + 1."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]  # before and after
    sizes: tuple[int | None, ...]  # of the input

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel)

    @property
    def extents(self) -> tuple[int, ...]:
        """How far the kernel reaches."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return any(low or high for low, high in self.pads)

    def widened(self) -> Window:
        """With a spatial axis of size 1 before the others."""
        return Window(
            (1, *self.kernel), (1, *self.strides), (1, *self.dilations), ((0, 0), *self.pads), (1, *self.sizes)
        )

    def explicit_padding(self) -> list[list[int]]:
        """As TensorFlow takes it for channels last, batch and channels included."""
        return [[0, 0], *[list(pair) for pair in self.pads], [0, 0]]


def read_window(op: Op, value: Value, kernel: Sequence[int]) -> Window:
    """The window that strides, dilations, pads and auto_pad describe."""
    rank = len(kernel)
    window = Window(
        kernel=tuple(kernel),
        strides=tuple(op.ints("strides", [1] * rank)),
        dilations=tuple(op.ints("dilations", [1] * rank)),
        pads=((0, 0),) * rank,
        sizes=value.shape[2:],
    )
    if len({rank, len(window.strides), len(window.dilations), len(window.sizes)}) != 1:
        op.refuse(f"strides, dilations and kernel do not fit the shape {value.shape}", fix="check the model")
    mode = op.word("auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if mode.startswith("SAME"):
        op.ignore("pads", because="onnx says that auto_pad rules them out, and exporters still write zeros")
        return replace(window, pads=_same_pads(op, window, upper=mode == "SAME_UPPER"))
    pads = op.ints("pads", [0] * 2 * rank)
    if mode == "VALID" and any(pads):
        op.refuse("it has both auto_pad and pads", fix="check the model with onnx.checker")
    if len(pads) != 2 * rank or min(pads, default=0) < 0:
        op.refuse(f"its pads are {pads}", fix="pad with an operator of its own")
    return replace(window, pads=tuple(zip(pads[:rank], pads[rank:], strict=True)))


def _same_pads(op: Op, window: Window, *, upper: bool) -> tuple[tuple[int, int], ...]:
    """So that the answer has ceil(size / stride) places; the odd one goes after (UPPER) or before (LOWER)."""
    found = []
    for size, stride, extent in zip(window.sizes, window.strides, window.extents, strict=True):
        if size is None and stride > 1:
            op.refuse("auto_pad on an axis whose size is known only when the model runs", fix="export it with pads")
        total = extent - 1 if size is None else max((-(-size // stride) - 1) * stride + extent - size, 0)
        small, large = total // 2, total - total // 2
        found.append((small, large) if upper else (large, small))
    return tuple(found)


def same_padding(window: Window) -> bool:
    """Whether the pads are just what TensorFlow calls SAME, which every runtime fuses with the kernel."""
    for size, stride, extent, pads in zip(window.sizes, window.strides, window.extents, window.pads, strict=True):
        if size is None and stride > 1:
            return False
        total = extent - 1 if size is None else max((-(-size // stride) - 1) * stride + extent - size, 0)
        if pads != (total // 2, total - total // 2):
            return False
    return True
