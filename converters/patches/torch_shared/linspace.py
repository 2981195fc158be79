"""`torch.linspace` as PyTorch's kernel has it: the first half counted from the start, and the second from the end.

torch's TorchScript exporter counts from the start alone, and misses the end by a bit: `linspace(0, 31, 8).long()` ended
in 30. torch.export makes a constant of a number of steps that is a size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import private_onnxscript
from ..ledger import translations
from .dynamo_graph import constant_of

if TYPE_CHECKING:
    from torch import Tensor


def line(start: Any, end: Any, steps: Any = None, *, dtype: Any = None, **more: Any) -> Tensor | None:
    """Return a line whose ends or number of steps are open, by functions that keep them open.

    None where the kernel itself will do, and for integers, which the kernel rounds on its way. The kernel multiplies
    and adds in one step: an element may differ in its last bit.
    """
    import torch

    kind = dtype or torch.get_default_dtype()
    is_open = any(isinstance(value, torch.SymInt | torch.SymFloat | torch.Tensor) for value in (start, end, steps))
    if not is_open or not kind.is_floating_point or more.keys() - {"device"}:
        return None
    at: Any = torch.arange(steps, dtype=kind, **more)
    left = at.flip(0)
    step = (at * 0 + end - start) / (at + left).clamp(min=1)  # the number of steps less one, at every place
    return torch.where((at < left) | (at == 0), start + step * at, end - step * left)


def _known_line(start: Any, end: Any, steps: Any, dtype: Any = -1, **more: Any) -> Any:
    """Write a line of known numbers as the constant that the kernel computes."""
    import torch

    dtypes = {-1: torch.float32, None: torch.float32, 1: torch.float32, 11: torch.float64}  # 1, 11: onnx.TensorProto's
    kind = dtypes.get(dtype)
    if kind is None or not all(isinstance(value, int | float) for value in (start, end, steps)):
        return private_onnxscript.core.aten_linspace(start, end, steps, dtype=dtype, **more)
    return constant_of(torch.linspace(start, end, steps, dtype=kind).numpy())


PATCHES = translations(
    {"aten.linspace.default": _known_line},
    why="Rounds each product, where PyTorch multiplies and adds in one step: `linspace(0, 4, 31).long()` differs.",
    upstream="onnxscript/function_libs/torch_lib/ops/core.py (aten_linspace)",
    until="it multiplies and adds in one step, or writes known numbers as a constant",
)


def traced_line(own: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return linspace for a trace: a constant where all numbers are known, else `line`."""

    def linspace(*args: Any, **more: Any) -> Tensor:
        import torch

        opened = line(*args, **more)
        if opened is not None:
            return opened
        values = own(*args, **more)
        return torch.tensor(values.tolist(), dtype=values.dtype) if values.is_floating_point() else values

    return linspace
