"""`torch.linspace` of as many steps as an axis is long, for torch.export, which makes that number a constant."""

from __future__ import annotations

from typing import Any, cast


def line(start: Any, end: Any, steps: Any = None, *, dtype: Any = None, **more: Any) -> Any:
    """A line whose number of steps is a size, in what keeps it one: as PyTorch's kernel has it, the first half counted
    from the start, and the second from the end. None where the kernel itself will do, and for whole numbers, which it
    rounds on its way."""
    import torch

    kind = dtype or torch.get_default_dtype()
    if not isinstance(steps, torch.SymInt) or not kind.is_floating_point or more.keys() - {"device"}:
        return None
    at = torch.arange(cast("int", steps), dtype=kind, **more)
    left = at.flip(0)
    step = (end - start) / (at + left).clamp(min=1)  # the number of steps less one, at every place
    return torch.where((at < left) | (at == 0), start + step * at, end - step * left)
