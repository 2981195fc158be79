"""Pools whose window is as wide as an open axis (`F.avg_pool2d(x, x.size()[2:])`), as means and maxima of the axis.

A pool of torch.export has windows of known sizes. Windows over lines become windows over pictures one row high.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from .. import private_torch

if TYPE_CHECKING:
    from torch import Tensor

Sizes: TypeAlias = int | Sequence[int] | None  # one for every axis, or one for each; a size may be a torch.SymInt


def avg_pool(  # noqa: PLR0917  (PyTorch's own arguments)
    input: Tensor,  # noqa: A002
    kernel_size: Sizes,
    stride: Sizes = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    axes: int,
) -> Tensor | None:
    """Return the mean pool over the last `axes` axes; None if no window is as wide as an open axis."""
    import torch

    kernel, pads = _per_axis(kernel_size, axes), _per_axis(padding, axes)
    steps = _per_axis(stride, axes) or kernel
    full = _full_axes(input, kernel, pads)
    if not full or divisor_override:
        return None
    mean = input.mean(full, keepdim=True)
    kernel, steps = _without_full(kernel, full), _without_full(steps, full)
    if _is_done(kernel, steps, pads):
        return mean
    pool: Callable[..., Tensor] = getattr(torch.nn.functional, f"avg_pool{axes}d")
    return pool(mean, kernel, steps, pads, ceil_mode, count_include_pad)


def max_pool(  # noqa: PLR0917  (PyTorch's own arguments)
    input: Tensor,  # noqa: A002
    kernel_size: Sizes,
    stride: Sizes = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    axes: int,
) -> Tensor | None:
    """Return the max pool over the last `axes` axes; None where PyTorch's own will do.

    Windows over lines are those over a picture that is one row high: without gradients PyTorch's kernel for lines is
    not decomposed, and reads the size.
    """
    import torch

    kernel, pads, dilations = _per_axis(kernel_size, axes), _per_axis(padding, axes), _per_axis(dilation, axes)
    steps = _per_axis(stride, axes) or kernel
    full = _full_axes(input, kernel, [pad or step - 1 for pad, step in zip(pads, dilations, strict=True)])
    maxima = input.amax(full, keepdim=True) if full else input
    kernel, steps = _without_full(kernel, full), _without_full(steps, full)
    if full and _is_done(kernel, steps, pads):
        return maxima
    if axes == 1 and any(isinstance(size, torch.SymInt) for size in input.shape):
        row = maxima.unsqueeze(-2)
        return torch.max_pool2d(row, (1, *kernel), (1, *steps), (0, *pads), (1, *dilations), ceil_mode).squeeze(-2)
    if not full:
        return None
    pool: Callable[..., Tensor] = getattr(torch, f"max_pool{axes}d")
    return pool(maxima, kernel, steps, pads, dilations, ceil_mode)


def _per_axis(sizes: Sizes, axes: int) -> list[int]:
    """Return one size for each axis; none for None and for an empty list."""
    import torch

    listed: list[int] = [] if sizes is None else [sizes] if isinstance(sizes, int | torch.SymInt) else [*sizes]
    return listed * axes if len(listed) == 1 else listed


def _full_axes(input: Tensor, kernel: Sequence[int], more: Sequence[int]) -> list[int]:  # noqa: A002
    """Return the axes, counted from the end, that a window spans at any size, unless it has `more` than that."""
    import torch

    return [
        at - len(kernel)
        for at, width in enumerate(kernel)
        if isinstance(width, torch.SymInt)
        and not more[at]
        and private_torch.statically_known_true(width == input.shape[at - len(kernel)])
    ]


def _without_full(sizes: Sequence[int], full: Sequence[int]) -> list[int]:
    """Return sizes with 1 for the axes that have length 1 by now."""
    return [1 if at - len(sizes) in full else size for at, size in enumerate(sizes)]


def _is_done(kernel: Sequence[int], steps: Sequence[int], pads: Sequence[int]) -> bool:
    return not any(pads) and all(isinstance(size, int) and size == 1 for size in (*kernel, *steps))
