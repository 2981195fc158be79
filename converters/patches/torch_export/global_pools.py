"""Windows as wide as an open axis (`F.avg_pool2d(x, x.size()[2:])`): means and maxima of the axis, for a pool of
torch.export has windows of known sizes. And windows of lines as those of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import private_torch


def avg_pool(  # noqa: PLR0917  (PyTorch's own arguments)
    input: Any,  # noqa: A002
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    axes: int,
) -> Any:
    """Of pools over so many last axes; None where no window is as wide as an open axis."""
    import torch

    kernel, rim = _each(kernel_size, axes), _each(padding, axes)
    step = _each(stride, axes) or kernel
    whole = _whole(input, kernel, rim)
    if not whole or divisor_override:
        return None
    made = input.mean(whole, keepdim=True)
    kernel, step = _left(kernel, whole), _left(step, whole)
    if _is_done(kernel, step, rim):
        return made
    pools = {1: torch.avg_pool1d, 2: torch.nn.functional.avg_pool2d, 3: torch.nn.functional.avg_pool3d}
    return pools[axes](made, kernel, step, rim, ceil_mode, count_include_pad)


def max_pool(  # noqa: PLR0917  (PyTorch's own arguments)
    input: Any,  # noqa: A002
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    axes: int,
) -> Any:
    """As avg_pool. Windows of lines are those of a picture that is one row high: without gradients the kernel of lines
    is no operator of several, and reads the size."""
    import torch

    kernel, rim, apart = _each(kernel_size, axes), _each(padding, axes), _each(dilation, axes)
    step = _each(stride, axes) or kernel
    whole = _whole(input, kernel, [before or between - 1 for before, between in zip(rim, apart, strict=True)])
    made = input.amax(whole, keepdim=True) if whole else input
    kernel, step = _left(kernel, whole), _left(step, whole)
    if whole and _is_done(kernel, step, rim):
        return made
    if axes == 1 and any(isinstance(size, torch.SymInt) for size in input.shape):
        row = made.unsqueeze(-2)
        return torch.max_pool2d(row, (1, *kernel), (1, *step), (0, *rim), (1, *apart), ceil_mode).squeeze(-2)
    if not whole:
        return None
    pools = {1: torch.max_pool1d, 2: torch.max_pool2d, 3: torch.max_pool3d}
    return pools[axes](made, kernel, step, rim, apart, ceil_mode)


def _each(sizes: Any, axes: int) -> list[Any]:
    """One for each axis, of a number or of a list that may hold one for all; none of None, or of a list of none."""
    given = [*sizes] if isinstance(sizes, tuple | list) else [] if sizes is None else [sizes]
    return given * axes if len(given) == 1 else given


def _whole(input: Any, kernel: Sequence[Any], more: Sequence[int]) -> list[int]:  # noqa: A002
    """The axes, counted from the end, that a window is as wide as, for any size of theirs, if it has nothing more."""
    import torch

    return [
        at - len(kernel)
        for at, wide in enumerate(kernel)
        if isinstance(wide, torch.SymInt)
        and not more[at]
        and private_torch.statically_known_true(wide == input.shape[at - len(kernel)])
    ]


def _left(sizes: Sequence[Any], whole: Sequence[int]) -> list[Any]:
    """1 for axes that are one long by now."""
    return [1 if at - len(sizes) in whole else size for at, size in enumerate(sizes)]


def _is_done(kernel: Sequence[Any], step: Sequence[Any], rim: Sequence[int]) -> bool:
    return not any(rim) and all(isinstance(size, int) and size == 1 for size in (*kernel, *step))
