"""Functions of PyTorch of which torch's TorchScript exporter has no ONNX, rewritten for the traces that it reads.

Each takes what PyTorch's own takes, and returns what that returns; what one does not take it passes to PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ..ledger import RETIRED, SYMBOLICS, Kind, always, patches, swapped
from ..torch_shared.linspace import traced_line
from ..torch_shared.nearest_resize import is_exact

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_Function: TypeAlias = Callable[..., Any]
_Axes: TypeAlias = int | tuple[int, ...] | list[int] | None


def swap_traced_functions() -> AbstractContextManager[None]:
    """Swap the functions, while a model is traced for the TorchScript exporter."""
    return swapped(PATCHES)


def recomputing() -> AbstractContextManager[None]:
    """Compute the sizes of F.interpolate(recompute_scale_factor=True) in float64, while a model is traced."""
    return swapped(replace(patch, replacement=_recomputed) for patch in _INTERPOLATE)


def _adjoint(self: Tensor) -> Tensor:
    return (self.conj() if self.is_complex() else self).transpose(-2, -1)


def _channel_shuffle(self: Tensor, groups: int) -> Tensor:
    sizes = self.shape
    grouped = self.reshape(sizes[0], groups, sizes[1] // groups, *sizes[2:])
    return grouped.transpose(1, 2).reshape(sizes)


def _diff(
    self: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    import torch

    parts = [part for part in (prepend, self, append) if part is not None]
    values, before = torch.cat(parts, dim) if len(parts) > 1 else self, (slice(None),) * (dim % self.dim())
    for _ in range(n):
        later, earlier = values[(*before, slice(1, None))], values[(*before, slice(None, -1))]
        values = later != earlier if values.dtype == torch.bool else later - earlier
    return values


def _trunc(self: Tensor) -> Tensor:
    import torch

    return torch.where(self < 0, self.ceil(), self.floor()) if self.is_floating_point() else self


def _float_power(self: Any, exponent: Any) -> Tensor:
    import torch

    return torch.pow(*(value.double() if torch.is_tensor(value) else value for value in (self, exponent)))


def _isclose(self: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    near = ((self - other).abs() <= atol + rtol * other.abs()) & other.isfinite() | (self == other)
    return near | (self.isnan() & other.isnan()) if equal_nan else near


def _isin(
    elements: Tensor,
    test_elements: Tensor,
    *,
    assume_unique: bool = False,  # noqa: ARG001  (changes no answer)
    invert: bool = False,
) -> Tensor:
    is_in = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return ~is_in if invert else is_in


def _nanmean(self: Tensor, dim: _Axes = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    counted = (~self.isnan()).to(dtype or self.dtype)
    return _nansum(self, dim, keepdim, dtype=dtype) / _sum(counted, dim, keepdim)


def _nansum(self: Tensor, dim: _Axes = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    import torch

    known = torch.where(self.isnan(), torch.zeros_like(self), self) if self.is_floating_point() else self
    return _sum(known if dtype is None else known.to(dtype), dim, keepdim)


def _sum(self: Tensor, dim: _Axes, keepdim: bool) -> Tensor:
    return self.sum() if dim is None else self.sum(dim, keepdim)


def _rms_norm(
    self: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    import torch

    axes = [-1 - at for at in range(len(normalized_shape))]
    least = torch.finfo(self.dtype).eps if eps is None else eps
    normalized = self * torch.rsqrt((self * self).mean(axes, keepdim=True) + least)
    return normalized if weight is None else normalized * weight


def _rot90(self: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    first, second = dims
    quarters: list[Callable[[], Tensor]] = [
        self.clone, lambda: self.flip(second).transpose(first, second), lambda: self.flip(first, second),
        lambda: self.transpose(first, second).flip(second),
    ]  # fmt: skip
    return quarters[k % 4]()


def take_along_dim(self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Take along an axis by gather: of whether an open axis has length 1 torch.export would make a constant."""
    if dim is None:
        return self.reshape(-1).gather(0, indices.reshape(-1))
    at = dim % self.dim()
    own, wanted = ([-1 if axis == at else size for axis, size in enumerate(x.shape)] for x in (self, indices))
    wide = [other if _is_one(size) else size for size, other in zip(own, wanted, strict=True)]
    return self.expand(wide).gather(at, indices.expand(wide))


def _is_one(size: int | torch.SymInt) -> bool:
    import torch

    return not isinstance(size, torch.SymInt) and bool(size == 1)


def _recomputed(own: _Function) -> _Function:
    def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, *args: Any, **more: Any) -> Any:  # noqa: A002
        if scale_factor is None or not more.pop("recompute_scale_factor", None):
            return own(input, size, scale_factor, *args, **more)
        sizes = _sizes(input, _factors(input, scale_factor))
        return own(input, sizes, None, *args, **more, recompute_scale_factor=None)

    return interpolate


def _by_factor(own: _Function) -> _Function:
    """Return interpolate with nearest elements by a factor that is no power of two.

    A trace turns the factor into a size, with which PyTorch takes other elements.
    """

    def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, *args: Any, **more: Any) -> Any:  # noqa: A002
        mode = args[0] if args else more.get("mode", "nearest")
        factors = _factors(input, scale_factor)
        if mode != "nearest" or more.get("recompute_scale_factor") or all(map(is_exact, factors)):
            return own(input, size, scale_factor, *args, **more)
        return _nearest(input, _sizes(input, factors), factors)

    return interpolate


def _factors(input: Tensor, factor: float | Sequence[float] | None) -> list[float]:  # noqa: A002
    """Return one factor for each axis; none for None."""
    if isinstance(factor, tuple | list):
        return [*factor]
    return [] if factor is None else [factor] * (input.dim() - 2)  # type: ignore[list-item]  # a list is done


def _sizes(input: Tensor, factors: Sequence[float]) -> list[Tensor]:  # noqa: A002
    return [_product(input.shape[axis], factor) for axis, factor in enumerate(factors, 2)]


def _product(size: int, factor: float) -> Tensor:
    """Return a size times a factor, rounded down, as a tensor of the trace.

    In float64, as Python computes it; of rank 1 meanwhile, because the exporter makes rank-0 numbers float32.
    """
    import torch

    product = torch.as_tensor(size).reshape(1).double() * torch.tensor([factor], dtype=torch.float64)
    return product.floor().long()[0]


def _nearest(input: Tensor, sizes: Sequence[Tensor], factors: Sequence[float]) -> Tensor:  # noqa: A002
    """Gather the nearest elements as torch_shared/nearest_resize.py says."""
    import torch

    resized = input
    for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        before = torch.as_tensor(input.shape[axis])
        share = torch.tensor(1 / factor)
        if input.dim() == 4:
            share = torch.where((size == before) | (size == 2 * before), before / size, share)
        at = (torch.arange(size) * share).floor().long()  # type: ignore[call-overload]  # a tensor counts as a number
        resized = resized.index_select(axis, torch.minimum(at, before - 1))
    return resized


def _unstable(own: _Function) -> _Function:
    """Return a sort without `stable`: TopK takes the first of equal numbers, so it is stable anyway."""

    def call(*args: object, stable: bool = False, **more: object) -> object:  # noqa: ARG001
        return own(*args, **more)

    return call


_swaps = partial(patches, Kind.TRACE, upstream=SYMBOLICS, until=RETIRED)
_FUNCTIONAL = {"channel_shuffle": _channel_shuffle, "rms_norm": _rms_norm}
_SHARED = {  # of torch and of torch.Tensor
    "adjoint": _adjoint, "argwhere": lambda self: self.nonzero(), "diff": _diff,
    "count_nonzero": lambda self, dim=None: _sum(self != 0, dim, keepdim=False),
    "fix": _trunc, "float_power": _float_power, "frac": lambda self: self - _trunc(self), "isclose": _isclose,
    "isneginf": lambda self: self == float("-inf"), "isposinf": lambda self: self == float("inf"),
    "msort": lambda self: self.sort(0).values, "nanmean": _nanmean, "nansum": _nansum, "rot90": _rot90,
    "take_along_dim": take_along_dim, "trunc": _trunc,
}  # fmt: skip
_OWNERS = {
    "torch": {**_SHARED, **_FUNCTIONAL, "isin": _isin},
    "torch.Tensor": _SHARED,
    "torch.nn.functional": _FUNCTIONAL,
}
_NO_SYMBOLIC = "The TorchScript exporter has no symbolic of it, or writes another function."
_REWRITTEN = tuple(
    patch
    for owner, functions in _OWNERS.items()
    for patch in _swaps(owner, {name: always(function) for name, function in functions.items()}, why=_NO_SYMBOLIC)
)
_SORTS = {"sort": _unstable, "argsort": _unstable}
_NO_STABLE_SORT = "The TorchScript exporter has no symbolic of a stable sort."
_INTERPOLATE = _swaps(
    "torch.nn.functional",
    {"interpolate": lambda own: _by_factor(_recomputed(own))},
    why="A trace turns a factor into a size, with which PyTorch takes other nearest elements; with "
    "recompute_scale_factor=True it computes the sizes in float32.",
    upstream="torch/nn/functional.py (interpolate)",
    until="a trace keeps the factor, and computes these sizes in float64",
)
PATCHES = (
    *_REWRITTEN,
    *_swaps("torch", _SORTS, why=_NO_STABLE_SORT),
    *_swaps("torch.Tensor", _SORTS, why=_NO_STABLE_SORT),
    *_swaps(
        "torch.Tensor",
        {name: lambda _own: property(_adjoint) for name in ("mT", "mH")},
        why="The TorchScript exporter has no symbolic of the attribute.",
    ),
    *_swaps(
        "torch",
        {"linspace": traced_line},
        why="The TorchScript exporter counts from the start alone, and misses the end by a bit: "
        "`linspace(0, 31, 8).long()` ends in 30.",
        upstream=f"{SYMBOLICS} (linspace)",
    ),
    *_INTERPOLATE,
)
