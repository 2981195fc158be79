"""PyTorch in float64, whatever dtype a model's code names: the truth that float32 answers are held against."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


_ERRORS = 1_000_003  # drawn once, for normal numbers cost more than a convolution; prime, so that rows do not repeat
# Operators that hand on elements of their inputs, or whole numbers, and round nothing in any kernel.
_CHOOSES = frozenset(
    ("neg", "abs", "relu", "clamp", "clamp_min", "clamp_max", "hardtanh", "minimum", "maximum", "where", "round",
     "floor", "ceil", "trunc", "sign", "cat", "stack", "clone", "_to_copy", "index", "index_select", "gather",
     "embedding", "constant_pad_nd", "full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "arange",
     "scalar_tensor", "amax", "amin", "max_pool2d_with_indices")
)  # fmt: skip
_ROUNDS_ONCE = frozenset(("add", "sub", "rsub", "mul"))  # right in every kernel where float32 holds the result
_UNORDERED = frozenset(("topk", "sort", "kthvalue", "median", "mode"))  # no order of equal elements is promised
# Operators that subtract a mean, or multiply out a difference: how well depends on the kernel, and shows in no result.
_CANCELS = frozenset(
    ("native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit",
     "_native_batch_norm_legit_no_training", "_batch_norm_with_update", "var", "std", "var_mean", "std_mean",
     "_cdist_forward", "_euclidean_dist")
)  # fmt: skip
_COMPARES = frozenset((*_UNORDERED, "argmax", "argmin", "max", "min", "cummax", "cummin"))
_LEAST = 1e-200  # parts zeros, which no relative error parts


def widen_module(module: torch.nn.Module) -> None:
    """Make every weight and buffer of a module float64, in place."""
    module.double()


def in_float64(noise: float = 0.0, seed: int = 0) -> AbstractContextManager[object]:
    """Return a context in which every operator of PyTorch computes in float64 where its code says float32.
    With `noise`, every new tensor of floats is multiplied by 1 + noise * N(0, 1), drawn from `seed`. Elements that
    float32 computes without rounding have none: a copy that rounds 2.5 to 3 is wrong. Equal scores, which PyTorch sorts
    in no promised order, are parted at random, and NaN gets another place among scores and another integer.

    A module in float64 alone is not enough: code makes tensors of float32 (`torch.zeros(n)`), and casts to it. So each
    call that reaches the dispatcher gets its float32 tensors and dtype arguments widened, complex ones alike. Operators
    that take functions (scan, cond) raise an error in it.
    """
    mode: AbstractContextManager[object] = _mode_class()(noise, seed)
    return mode


@dataclass
class _RoundingErrors:
    """Relative errors of normal distribution, drawn from a seed and used in turn."""

    noise: float
    drawn: torch.Tensor
    used: int = 0

    def of_arguments(self, operator: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of an operator, the first with errors where its kernels read it in no promised way."""
        if not (arguments and _is_wide(arguments[0])):
            return arguments
        value, *rest = arguments
        if operator in _COMPARES:
            value = value.nan_to_num(math.copysign(math.inf, self.noise), math.inf, -math.inf)
        if operator in _UNORDERED | _CANCELS:
            value = self.of_tensor(value, _LEAST if operator in _UNORDERED else 0.0)
        return (value, *rest)

    def of_result(self, operator: str, arguments: tuple[Any, ...], results: Any) -> Any:
        """Return the results of an operator with errors."""
        if arguments and _is_wide(arguments[0]):
            results = self._of_undefined(operator, arguments[0], results)
        if operator in _CHOOSES:
            return results
        return self._map(self._of_rounded if operator in _ROUNDS_ONCE else self.of_tensor, results)

    def _map(self, act: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)(self._map(act, item) for item in value)
        return act(value) if _is_wide(value) else value

    def of_tensor(self, value: torch.Tensor, least: float = 0.0) -> torch.Tensor:
        """Return a tensor with errors; those of elements near 0 are `least` at least."""
        flat = value.reshape(-1)
        result = flat.new_empty(flat.shape)
        least = math.copysign(least, self.noise)  # opposite noise puts equal elements into the opposite order
        start = 0
        while start < len(flat):
            errors = self._next(len(flat) - start).to(value.device)
            part = flat[start : start + len(errors)]
            near = part + least * errors if least else part
            result[start : start + len(errors)] = near * (errors * self.noise + 1)  # infinities stay infinite
            start += len(errors)
        return result.reshape(value.shape)

    def _of_undefined(self, operator: str, value: torch.Tensor, result: Any) -> Any:
        """Return the result of a cast to integers, or of a quantiser, with other numbers where `value` is NaN or
        infinite: no format says which ones."""
        if operator.startswith("fake_quantize"):
            return (self._replaced(value, result[0]), *result[1:])
        is_integer = operator == "_to_copy" and "int" in str(result.dtype)
        return self._replaced(value, result) if is_integer else result

    def _replaced(self, value: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
        finite = value.isfinite()
        if finite.all():
            return result
        numbers = result[finite] if finite.any() else result.new_tensor([0, 1])
        return result.where(finite, numbers.max() if self.noise > 0 else numbers.min())

    def _of_rounded(self, value: torch.Tensor) -> torch.Tensor:
        """Return a tensor with errors where float32 does not hold an element exactly."""
        return self.of_tensor(value).where(value.float().double() != value, value)

    def _next(self, most: int) -> torch.Tensor:
        """Return the errors after those of the last operator: `most` of them, or as many as there are to the end."""
        first = self.used % _ERRORS
        errors = self.drawn[first : first + most]
        self.used += len(errors)
        return errors


def _is_wide(value: object) -> bool:
    return str(getattr(value, "dtype", "")) == "torch.float64"


@cache
def _draw_errors(seed: int) -> torch.Tensor:
    import torch

    return torch.randn(_ERRORS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


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
        def __init__(self, noise: float, seed: int) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self._errors = _RoundingErrors(noise, _draw_errors(seed)) if noise else None

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            args, operator = widen(args), func._schema.name.removeprefix("aten::")
            if operator == "fake_quantize_per_channel_affine_cachemask":
                args = (args[0], args[1].float(), *args[2:])  # PyTorch 2.13 refuses scales of float64
            noisy = self._errors.of_arguments(operator, args) if self._errors else args
            results = func(*noisy, **{name: widen(value) for name, value in (kwargs or {}).items()})
            # A view, and a tensor that was written to, are known under another name too: noise would part the two.
            owns = not func._schema.is_mutable and not any(result.alias_info for result in func._schema.returns)
            return self._errors.of_result(operator, args, results) if self._errors and owns else results

    return Float64Mode
