"""The moving windows of convolutions and pools: kernel, strides, dilations and pads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..node_reader import NodeReader, S, V

_AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, slots=True)
class WindowAttributes:
    """A window by spatial axis. A dilated kernel reaches over (kernel - 1) dilation + 1 elements."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]  # before and after each axis; zeros where auto_pad decides
    auto_pad: str = "NOTSET"

    @property
    def same(self) -> bool:
        """Whether the pads follow from the sizes, so that the output has ceil(size / stride) places."""
        return self.auto_pad.startswith("SAME")

    @property
    def upper(self) -> bool:
        """Whether the larger half of odd pads lies after the axis."""
        return self.auto_pad == "SAME_UPPER"

    @property
    def extents(self) -> tuple[int, ...]:
        """How far the kernel reaches along each axis."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations, strict=True))


def window_attributes(op: NodeReader[V, S], kernel: Sequence[int], *, pads_apply: bool = True) -> WindowAttributes:
    """Read strides, dilations, pads and auto_pad of a window; `pads_apply`: unless another attribute rules them out."""
    rank = len(kernel)
    strides, dilations = tuple(op.ints("strides", [1] * rank)), tuple(op.ints("dilations", [1] * rank))
    if {len(strides), len(dilations)} != {rank}:
        op.refuse(f"its strides {strides} and dilations {dilations} do not fit {rank} axes", fix="check the model")
    auto_pad = op.word("auto_pad", "NOTSET", _AUTO_PADS)
    window = WindowAttributes(tuple(kernel), strides, dilations, ((0, 0),) * rank, auto_pad)
    if window.same or not pads_apply:
        op.ignore("pads", because="the specification rules them out, and exporters still write zeros")
        return window
    pads = pads_by_axis(op, rank)
    if auto_pad == "VALID" and any(map(any, pads)):
        op.refuse("it has both auto_pad and pads", fix="check the model with onnx.checker")
    return replace(window, pads=pads)


def pads_by_axis(op: NodeReader[V, S], rank: int) -> tuple[tuple[int, int], ...]:
    """Read the attribute pads: before and after each of `rank` axes."""
    pads = op.ints("pads", [0] * 2 * rank)
    if len(pads) != 2 * rank or (min(pads, default=0) < 0 and not op.takes_negative_pads):
        op.refuse(f"its pads are {pads}", fix="pad with an operator of its own")
    return tuple(zip(pads[:rank], pads[rank:], strict=True))


def kernel_sizes(op: NodeReader[V, S], weight: V) -> tuple[int, ...]:
    """Return the spatial sizes of a convolution's weight, which the attribute kernel_shape may only repeat."""
    sizes = tuple(size for size in weight.shape[2:] if size is not None)
    if len(sizes) != weight.rank - 2 or tuple(op.ints("kernel_shape", sizes)) != sizes:
        op.refuse(
            f"its weight has the shape {weight.shape}, which does not fit its kernel_shape", fix="check the model"
        )
    if not 1 <= len(sizes) <= 3:
        op.refuse(f"it has {len(sizes)} spatial axes, and only 1 to 3 can be carried")
    return sizes


@dataclass(frozen=True, slots=True)
class TransposedWindow:
    """The window of a transposed convolution, which first makes stride (size - 1) + extent elements of each axis."""

    window: WindowAttributes
    output_padding: tuple[int, ...]  # added after each axis
    output_shape: tuple[int, ...] | None  # of the spatial axes

    def cuts(self, sizes: Sequence[Any]) -> tuple[tuple[Any, Any], ...]:
        """Return what is cut before and after each axis of an input of these sizes, before output_padding is added.

        Of an odd total the larger half lies after for SAME_UPPER, and else before. Negative totals are halved
        downwards, as the reference implementation does.
        """
        window = self.window
        if self.output_shape is not None:
            full = [(size - 1) * stride for size, stride in zip(sizes, window.strides, strict=True)]
            rest = [base - wanted for base, wanted in zip(full, self.output_shape, strict=True)]
        elif window.same:
            rest = [-stride for stride in window.strides]
        else:
            return window.pads
        totals = [sum(parts) for parts in zip(rest, window.extents, self.output_padding, strict=True)]
        halves = [(total // 2, total - total // 2) for total in totals]
        return tuple((small, large) if window.upper else (large, small) for small, large in halves)


def transposed_window(op: NodeReader[V, S], kernel: Sequence[int]) -> TransposedWindow:
    """Read the window of a transposed convolution. An output_shape may repeat batch and channels before the axes."""
    rank = len(kernel)
    shape = tuple(op.ints("output_shape"))[-rank:] if op.has("output_shape") else None
    window = window_attributes(op, kernel, pads_apply=shape is None)
    return TransposedWindow(window, tuple(op.ints("output_padding", [0] * rank)), shape)
