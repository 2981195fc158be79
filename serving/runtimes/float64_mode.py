"""PyTorch in float64, whatever dtype a model's code names: the truth that float32 answers are held against."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


_ERRORS = 1_000_003  # drawn once, for normal numbers cost more than a convolution; prime, so that rows do not repeat


def widen_module(module: torch.nn.Module) -> None:
    """Make every weight and buffer of a module float64, in place."""
    module.double()


def in_float64(noise: float = 0.0, seed: int = 0) -> AbstractContextManager[object]:
    """Return a context in which every operator of PyTorch computes in float64 where its code says float32.
    With `noise`, every new tensor of floats is multiplied by 1 + noise * N(0, 1), drawn from `seed`.

    A module in float64 alone is not enough: code makes tensors of float32 (`torch.zeros(n)`), and casts to it. So each
    call that reaches the dispatcher gets its float32 tensors and dtype arguments widened, complex ones alike. Operators
    that take functions (scan, cond) raise an error in it.
    """
    mode: AbstractContextManager[object] = _mode_class()(noise, seed)
    return mode


@cache
def _mode_class() -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    @cache
    def draw_errors(seed: int) -> torch.Tensor:
        return torch.randn(_ERRORS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))

    wider = {torch.float32: torch.float64, torch.complex64: torch.complex128}

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(wider[value.dtype]) if value.dtype in wider else value
        if isinstance(value, torch.dtype):
            return wider.get(value, value)
        return type(value)(map(widen, value)) if type(value) in (list, tuple) else value

    class Float64Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not annotate its base
        def __init__(self, noise: float, seed: int) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self._noise = noise
            self._errors, self._used = draw_errors(seed), 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            results = func(*widen(args), **{name: widen(value) for name, value in (kwargs or {}).items()})
            # A view, and a tensor that was written to, are known under another name too: noise would part the two.
            owns = not func._schema.is_mutable and not any(result.alias_info for result in func._schema.returns)
            return self._with_noise(results) if self._noise and owns else results

        def _with_noise(self, value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.dtype == torch.float64:
                return torch.addcmul(value, value, self._next_errors(value.shape).to(value.device), value=self._noise)
            return type(value)(map(self._with_noise, value)) if type(value) in (list, tuple) else value

        def _next_errors(self, shape: torch.Size) -> torch.Tensor:
            """Go on where the last operator ended, and begin anew after the last of the drawn errors."""
            first, count = self._used % _ERRORS, shape.numel()
            self._used += count
            rounds = (first + count - 1) // _ERRORS + 1
            return self._errors.repeat(rounds)[first : first + count].reshape(shape)

    return Float64Mode
