"""The window of convolutions and pools, which moves over the spatial axes, and the padding around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...onnx_graph.semantics.window_attributes import WindowAttributes, window_attributes
from ..lazy_tensorflow import tf
from ..operator_context import OperatorContext
from ..values import Size, TfTensor, Value
from .padding_modes import clip_at_zero


@dataclass(frozen=True, slots=True)
class Window:
    """A window along the spatial axes, in logical order; a dilated kernel reaches over (kernel - 1) dilation + 1."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[Size, Size], ...]  # before and after
    sizes: tuple[Size, ...]  # of the input
    upper: bool = False  # padded by the rule SAME_UPPER, whatever the sizes are

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel)

    @property
    def extents(self) -> tuple[int, ...]:
        """How far the kernel reaches along each axis."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def dilated(self) -> bool:
        """Whether the kernel leaves out elements."""
        return any(k > 1 and d > 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    @property
    def fixed(self) -> bool:
        """Whether the pads are numbers, and not computed."""
        return all(isinstance(width, int) for pair in self.pads for width in pair)

    @property
    def padded(self) -> bool:
        """Whether there may be any padding."""
        return not all(isinstance(width, int) and width == 0 for pair in self.pads for width in pair)

    @property
    def same(self) -> bool:
        """Whether the pads are just what TensorFlow calls SAME, which every runtime fuses with the kernel."""
        return self.upper or all(
            (stride == 1 or isinstance(size, int)) and pads == _split(_same_total(size, stride, extent), upper=True)
            for size, stride, extent, pads in zip(self.sizes, self.strides, self.extents, self.pads, strict=True)
        )

    @property
    def counts(self) -> tuple[Size, ...]:
        """The sizes of the output."""
        padded = [size + low + high for size, (low, high) in zip(self.sizes, self.pads, strict=True)]
        return tuple(
            (size - extent) // stride + 1
            for size, extent, stride in zip(padded, self.extents, self.strides, strict=True)
        )

    @property
    def widths(self) -> list[tuple[Size, Size]]:
        """The pads of all axes of a tensor that lies channels last."""
        return [(0, 0), *self.pads, (0, 0)]

    def along(self, axes: slice) -> Window:
        """Return the window of some of its axes alone."""
        by_axis = ("kernel", "strides", "dilations", "pads", "sizes")
        return replace(self, **{name: getattr(self, name)[axes] for name in by_axis})

    def with_leading_axis(self) -> Window:
        """Return the window with a spatial axis of size 1 first; kernels want equal strides, and it needs none."""
        stride, dilation = self.strides[0], self.dilations[0]
        return Window(
            (1, *self.kernel),
            (stride, *self.strides),
            (dilation, *self.dilations),
            ((0, 0), *self.pads),
            (1, *self.sizes),
            self.upper,
        )


def read_window(op: OperatorContext, value: Value, kernel: Sequence[int], *, ceil: bool = False) -> Window:
    """Return the window that strides, dilations, pads and auto_pad describe.

    `ceil`: the last window may reach over the edge, which adds to the pads after; auto_pad has formulas of its own,
    which know no ceil.
    """
    attributes = window_attributes(op, kernel)
    window = window_over(attributes, value)
    if len(window.sizes) != len(kernel):
        op.refuse(f"strides, dilations and kernel do not fit the shape {value.shape}", fix="check the model")
    if attributes.same:
        return replace(window, pads=_same_pads(window, upper=attributes.upper), upper=attributes.upper)
    return add_ceil_pads(window) if ceil and attributes.auto_pad == "NOTSET" else window


def window_over(attributes: WindowAttributes, value: Value) -> Window:
    """Return the window over a value, with the pads that the attributes have."""
    sizes = tuple(value.size(axis) for axis in range(2, value.rank))
    return Window(attributes.kernel, attributes.strides, attributes.dilations, attributes.pads, sizes)


def _same_pads(window: Window, *, upper: bool) -> tuple[tuple[Size, Size], ...]:
    """Return pads so that the output has ceil(size / stride) places; the odd one goes after (upper) or before."""
    return tuple(
        _split(_same_total(size, stride, extent), upper=upper)
        for size, stride, extent in zip(window.sizes, window.strides, window.extents, strict=True)
    )


def _same_total(size: Size, stride: int, extent: int) -> Size:
    if stride == 1:
        return extent - 1
    return clip_at_zero(((size + stride - 1) // stride - 1) * stride + extent - size)


def _split(total: Size, *, upper: bool) -> tuple[Size, Size]:
    small = total // 2
    return (small, total - small) if upper else (total - small, small)


def add_ceil_pads(window: Window) -> Window:
    """Return the window with ceil_mode's pads; the last window begins inside the input or the pads before it."""
    pads = []
    for size, stride, extent, (low, after) in zip(
        window.sizes, window.strides, window.extents, window.pads, strict=True
    ):
        high = min(after, extent - 1)  # no window that may begin reaches further
        if stride == 1:
            pads.append((low, high))
            continue
        last = (size + low + high - extent + stride - 1) // stride * stride  # where the last window begins
        latest = (size + low - 1) // stride * stride  # the last place where one may begin
        last = min(last, latest) if isinstance(last, int) else tf.minimum(last, latest)
        pads.append((low, high + clip_at_zero(last + extent - size - low - high)))
    return replace(window, pads=tuple(pads))


def kernel_taps(tensor: TfTensor, axis: int, window: Window, at: int) -> list[TfTensor]:
    """Return what each kernel element sees along the axis `at`, which lies at `axis`, padded: the output's size."""
    reach = window.extents[at] - 1
    starts = [k * window.dilations[at] for k in range(window.kernel[at])]
    before = (slice(None),) * axis
    return [tensor[(*before, slice(start, start - reach or None, window.strides[at]))] for start in starts]
