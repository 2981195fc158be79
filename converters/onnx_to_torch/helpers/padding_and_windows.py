"""Padding with a tensor's own elements, and windows that move over the spatial axes of (N, C, ...)."""

from __future__ import annotations

import math

from ..lazy_torch import F, Tensor, torch


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


def ceiling_widths(
    x: Tensor,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    widths: list[int],
) -> list[int]:
    """Return the widths that F.pad must add at the ends, so that a last window that begins inside is complete."""
    widths_to_add: list[int] = []
    count = len(kernel)
    for at in reversed(range(count)):
        reach = (kernel[at] - 1) * dilations[at] + 1
        size = x.shape[2 + at] + widths[2 * (count - 1 - at)] + widths[2 * (count - 1 - at) + 1]
        last = -((reach - size) // strides[at])  # the last window's number, counted up
        begins = last * strides[at]
        inside = x.shape[2 + at] + widths[2 * (count - 1 - at)]
        last = last - (1 if begins >= inside else 0)
        widths_to_add += [0, torch.sym_max(last * strides[at] + reach - size, 0)]
    return widths_to_add


def window_sum(x: Tensor, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]) -> Tensor:
    """Return the sum of each window, channel by channel."""
    channels = x.shape[1]
    ones = torch.ones((channels, 1, *kernel), dtype=x.dtype, device=x.device)
    convolution = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(kernel)]
    return convolution(x, ones, None, strides, 0, dilations, channels)


def average_pool(
    x: Tensor,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    widths: list[int],
    ceil: bool,
    count_pads: bool,
) -> Tensor:
    """Return the mean of each window; `count_pads`: of the padding too."""
    ones = torch.ones_like(x[:1, :1])
    counted = F.pad(ones, widths, value=1.0 if count_pads else 0.0)
    x = F.pad(x, widths)
    if ceil:
        more = ceiling_widths(ones, kernel, strides, dilations, widths)
        counted, x = F.pad(counted, more), F.pad(x, more)
    return window_sum(x, kernel, strides, dilations) / window_sum(counted, kernel, strides, dilations)


def norm_pool(
    x: Tensor,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    widths: list[int],
    ceil: bool,
    p: int,
) -> Tensor:
    """Return the p-norm of each window."""
    x = F.pad(x, widths)
    if ceil:
        x = F.pad(x, ceiling_widths(x, kernel, strides, dilations, [0] * len(widths)))
    return window_sum(x.abs() ** p, kernel, strides, dilations) ** (1 / p)


def flat_places(places: Tensor, x: Tensor) -> Tensor:
    """Return places within each plane of x as places in the flat x."""
    size = math.prod(x.shape[2:])
    planes = torch.arange(x.shape[0] * x.shape[1], device=x.device).reshape(
        x.shape[0], x.shape[1], *[1] * (x.dim() - 2)
    )
    return places + planes * size


def unpooled(x: Tensor, places: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return zeros in a shape, with each value at its place in the flat tensor."""
    total = 1
    for size in shape:
        total = total * size
    return (
        torch.zeros(total, dtype=x.dtype, device=x.device).scatter(0, places.reshape(-1), x.reshape(-1)).reshape(shape)
    )
