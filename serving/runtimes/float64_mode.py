"""PyTorch in float64, whatever dtype a model's code names: the truth that float32 answers are held against."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def widen_module(module: torch.nn.Module) -> None:
    """Make every weight and buffer of a module float64, in place."""
    module.double()


def in_float64() -> AbstractContextManager[object]:
    """Return a context in which every operator of PyTorch computes in float64 where its code says float32.

    A module in float64 alone is not enough: code makes tensors of float32 (`torch.zeros(n)`), and casts to it. So each
    call that reaches the dispatcher gets its float32 tensors and dtype arguments widened, complex ones alike. Operators
    that take functions (scan, cond) raise an error in it.
    """
    mode: AbstractContextManager[object] = _mode_class()()
    return mode


@cache
def _mode_class() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    wider = {torch.float32: torch.float64, torch.complex64: torch.complex128}

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(wider[value.dtype]) if value.dtype in wider else value
        if isinstance(value, torch.dtype):
            return wider.get(value, value)
        return type(value)(map(widen, value)) if type(value) in (list, tuple) else value

    class Float64Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not annotate its base
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            return func(*widen(args), **{name: widen(value) for name, value in (kwargs or {}).items()})

    return Float64Mode
