"""Padding with a tensor's own elements. Negative widths cut."""

from __future__ import annotations

from ..lazy_torch import Tensor, torch


def surrounded(x: Tensor, widths: tuple[int, ...], mode: str) -> Tensor:
    """Pad with x's own elements: widths before all axes, then after all axes. Beyond the edge comes the nearest element
    (edge), the mirror image without the edge itself (reflect), or the start again (wrap)."""
    for axis in range(x.dim()):
        low, high, size = widths[axis], widths[axis + x.dim()], x.shape[axis]
        if isinstance(low, int) and isinstance(high, int) and low == 0 and high == 0:
            continue
        start, size = torch.sym_max(-low, 0), size + torch.sym_min(low, 0) + torch.sym_min(high, 0)
        places = torch.arange(-torch.sym_max(low, 0), size + torch.sym_max(high, 0), device=x.device)
        if mode == "edge":
            places = torch.clamp(places, 0, size - 1)
        elif mode == "wrap":
            places = torch.remainder(places, torch.sym_max(size, 1))
        else:
            period = torch.sym_max(2 * size - 2, 1)
            places = torch.remainder(places, period)
            places = torch.minimum(places, period - places)
        x = x.index_select(axis, places + start)
    return x


def same_widths(
    x: Tensor, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...], upper: bool
) -> list[int]:
    """Return widths for F.pad around the spatial axes of (N, C, ...), so that there is one window for every `stride`
    elements; an odd one lies at the end (upper) or at the start."""
    widths: list[int] = []
    for at in reversed(range(len(kernel))):
        size, stride = x.shape[2 + at], strides[at]
        windows = (size + stride - 1) // stride
        total = torch.sym_max((windows - 1) * stride + (kernel[at] - 1) * dilations[at] + 1 - size, 0)
        low = total // 2 if upper else (total + 1) // 2
        widths += [low, total - low]
    return widths
