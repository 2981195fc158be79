"""`torch.linspace` as PyTorch's kernel has it: the first half counted from the start, and the second from the end.

torch's older exporter counts from the start alone, and misses the end by a bit: `linspace(0, 31, 8).long()` ended in
30. torch.export makes a number of steps that is a size a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import private_onnxscript
from .onnxscript_opset import Translations, ir, op


def line(start: Any, end: Any, steps: Any = None, *, dtype: Any = None, **more: Any) -> Any:
    """A line of which one end, or the number of steps, is known as the model runs only; in functions that keep it open.
    None where the kernel itself will do, and for whole numbers, which it rounds on its way.

    The kernel multiplies and adds in one step: an element may differ in its last bit.
    """
    import torch

    kind = dtype or torch.get_default_dtype()
    is_open = any(isinstance(each, torch.SymInt | torch.SymFloat | torch.Tensor) for each in (start, end, steps))
    if not is_open or not kind.is_floating_point or more.keys() - {"device"}:
        return None
    at: Any = torch.arange(steps, dtype=kind, **more)
    left = at.flip(0)
    step = (at * 0 + end - start) / (at + left).clamp(min=1)  # the number of steps less one, at every place
    return torch.where((at < left) | (at == 0), start + step * at, end - step * left)


def lines() -> Translations:
    """A part of the dynamo exporter's `custom_translation_table`: a line that is all known is what the kernel makes."""
    import torch

    kinds = {-1: torch.float32, None: torch.float32, 1: torch.float32, 11: torch.float64}  # 1, 11: onnx.TensorProto's

    def known(start: Any, end: Any, steps: Any, dtype: Any = -1, **more: Any) -> Any:
        kind = kinds.get(dtype)
        if kind is None or not all(isinstance(each, int | float) for each in (start, end, steps)):
            return private_onnxscript.core.aten_linspace(start, end, steps, dtype=dtype, **more)
        return op.Constant(value=ir.tensor(torch.linspace(start, end, steps, dtype=kind).numpy()))

    return {torch.ops.aten.linspace.default: known}


def traced_line(own: Callable[..., Any]) -> Callable[..., Any]:
    """For a trace: of numbers the line itself, and of what is open `line`."""

    def linspace(*args: Any, **more: Any) -> Any:
        import torch

        found = line(*args, **more)
        if found is not None:
            return found
        made = own(*args, **more)
        return torch.tensor(made.tolist(), dtype=made.dtype) if made.is_floating_point() else made

    return linspace
