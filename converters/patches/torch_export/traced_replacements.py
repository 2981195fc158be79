"""What torch's older exporter has no ONNX of, in other functions of PyTorch's, for the time of a trace that it reads.

Each takes what PyTorch's own takes, and gives what that gives; what one does not take it hands on to PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..torch_shared.linspace import traced_line
from ..torch_shared.nearest_resize import is_exact
from ..torch_shared.replaced import Instead, replaced

_Function = Callable[..., Any]


def in_other_words() -> AbstractContextManager[None]:
    """While a model is traced for the older exporter."""
    return replaced(_table())


def _table() -> Iterator[Instead]:
    import torch

    functions: dict[str, _Function] = {
        "adjoint": _turned, "argwhere": _argwhere, "channel_shuffle": _channel_shuffle, "count_nonzero": _count_nonzero,
        "diff": _diff, "fix": _trunc, "float_power": _float_power, "frac": _frac, "isclose": _isclose, "isin": _isin,
        "isneginf": _isneginf, "isposinf": _isposinf, "msort": _msort, "nanmean": _nanmean, "nansum": _nansum,
        "rms_norm": _rms_norm, "rot90": _rot90, "take_along_dim": take_along_dim, "trunc": _trunc,
        "unflatten": _unflatten,
    }  # fmt: skip
    for owner in (torch, torch.Tensor, torch.nn.functional):
        yield from (Instead(owner, name, made) for name, made in functions.items() if hasattr(owner, name))
    for owner in (torch, torch.Tensor):
        yield Instead(owner, "sort", _unstable(owner.sort))
        yield Instead(owner, "argsort", _unstable(owner.argsort))
    yield from (Instead(torch.Tensor, name, property(_turned)) for name in ("mT", "mH"))
    yield Instead(torch, "linspace", traced_line(torch.linspace))
    yield Instead(torch.nn.functional, "interpolate", _by_factor(_recomputed(torch.nn.functional.interpolate)))


def _turned(self: Any) -> Any:
    return (self.conj() if self.is_complex() else self).transpose(-2, -1)


def _argwhere(self: Any) -> Any:
    return self.nonzero()


def _channel_shuffle(self: Any, groups: int) -> Any:
    sizes = self.shape
    apart = self.reshape(sizes[0], groups, sizes[1] // groups, *sizes[2:])
    return apart.transpose(1, 2).reshape(sizes)


def _count_nonzero(self: Any, dim: Any = None) -> Any:
    return (self != 0).sum() if dim is None else (self != 0).sum(dim)


def _diff(self: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    import torch

    parts = [each for each in (prepend, self, append) if each is not None]
    made, before = torch.cat(parts, dim) if len(parts) > 1 else self, (slice(None),) * (dim % self.dim())
    for _ in range(n):
        later, earlier = made[(*before, slice(1, None))], made[(*before, slice(None, -1))]
        made = later != earlier if made.dtype == torch.bool else later - earlier
    return made


def _trunc(self: Any) -> Any:
    import torch

    return torch.where(self < 0, self.ceil(), self.floor()) if self.is_floating_point() else self


def _frac(self: Any) -> Any:
    return self - _trunc(self)


def _float_power(self: Any, exponent: Any) -> Any:
    import torch

    return torch.pow(*(each.double() if torch.is_tensor(each) else each for each in (self, exponent)))


def _isclose(self: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    near = ((self - other).abs() <= atol + rtol * other.abs()) & other.isfinite() | (self == other)
    return near | (self.isnan() & other.isnan()) if equal_nan else near


def _isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:  # noqa: ARG001
    found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return ~found if invert else found


def _isneginf(self: Any) -> Any:
    return self == float("-inf")


def _isposinf(self: Any) -> Any:
    return self == float("inf")


def _msort(self: Any) -> Any:
    return self.sort(0).values


def _nanmean(self: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    counted = (~self.isnan()).to(dtype or self.dtype)
    return _nansum(self, dim, keepdim, dtype=dtype) / _sum(counted, dim, keepdim)


def _nansum(self: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    import torch

    known = torch.where(self.isnan(), torch.zeros_like(self), self) if self.is_floating_point() else self
    return _sum(known if dtype is None else known.to(dtype), dim, keepdim)


def _sum(self: Any, dim: Any, keepdim: bool) -> Any:
    return self.sum() if dim is None else self.sum(dim, keepdim)


def _rms_norm(self: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Any:
    import torch

    axes = [-1 - at for at in range(len(normalized_shape))]
    least = torch.finfo(self.dtype).eps if eps is None else eps
    made = self * torch.rsqrt((self * self).mean(axes, keepdim=True) + least)
    return made if weight is None else made * weight


def _rot90(self: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    one, two = dims
    ways: list[_Function] = [
        self.clone, lambda: self.flip(two).transpose(one, two), lambda: self.flip(one, two),
        lambda: self.transpose(one, two).flip(two),
    ]  # fmt: skip
    return ways[k % 4]()


def take_along_dim(self: Any, indices: Any, dim: int | None = None) -> Any:
    """By gather. Whether an axis that is open is one long is not asked: torch.export would make a constant of it."""
    if dim is None:
        return self.reshape(-1).gather(0, indices.reshape(-1))
    at = dim % self.dim()
    mine, theirs = ([-1 if axis == at else size for axis, size in enumerate(each.shape)] for each in (self, indices))
    wide = [other if _is_one(one) else one for one, other in zip(mine, theirs, strict=True)]
    return self.expand(wide).gather(at, indices.expand(wide))


def _is_one(size: Any) -> bool:
    import torch

    return not isinstance(size, torch.SymInt) and bool(size == 1)


def recomputing() -> AbstractContextManager[None]:
    """While a model is traced: of F.interpolate(recompute_scale_factor=True) a trace makes sizes in float32."""
    import torch

    function = torch.nn.functional
    return replaced([Instead(function, "interpolate", _recomputed(function.interpolate))])


def _recomputed(own: _Function) -> _Function:
    def call(input: Any, size: Any = None, scale_factor: Any = None, *args: Any, **more: Any) -> Any:  # noqa: A002
        if scale_factor is None or not more.pop("recompute_scale_factor", None):
            return own(input, size, scale_factor, *args, **more)
        return own(
            input, _sizes(input, _factors(input, scale_factor)), None, *args, **more, recompute_scale_factor=None
        )

    return call


def _by_factor(own: _Function) -> _Function:
    """By a factor that is no power of two: a trace makes a size of it, and with that PyTorch takes other elements."""

    def call(input: Any, size: Any = None, scale_factor: Any = None, *args: Any, **more: Any) -> Any:  # noqa: A002
        mode = args[0] if args else more.get("mode", "nearest")
        factors = _factors(input, scale_factor)
        if mode != "nearest" or more.get("recompute_scale_factor") or all(map(is_exact, factors)):
            return own(input, size, scale_factor, *args, **more)
        return _nearest(input, _sizes(input, factors), factors)

    return call


def _factors(input: Any, factor: Any) -> list[float]:  # noqa: A002
    """One for each axis; none where there is none."""
    if isinstance(factor, tuple | list):
        return [*factor]
    return [] if factor is None else [factor] * (input.dim() - 2)


def _sizes(input: Any, factors: Sequence[float]) -> list[Any]:  # noqa: A002
    return [_product(input.shape[axis], factor) for axis, factor in enumerate(factors, 2)]


def _product(size: Any, factor: float) -> Any:
    """In float64, as Python computes it; a number of a trace. Numbers without axes the exporter makes float32 of."""
    import torch

    made = torch.as_tensor(size).reshape(1).double() * torch.tensor([factor], dtype=torch.float64)
    return made.floor().long()[0]


def _nearest(input: Any, sizes: Sequence[Any], factors: Sequence[float]) -> Any:  # noqa: A002
    """As nearest.py says."""
    import torch

    made = input
    for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True), 2):
        before = torch.as_tensor(input.shape[axis])
        share = torch.tensor(1 / factor)
        if input.dim() == 4:
            share = torch.where((size == before) | (size == 2 * before), before / size, share)
        at = (torch.arange(size) * share).floor().long()
        made = made.index_select(axis, torch.minimum(at, before - 1))
    return made


def _unflatten(self: Any, dim: int, sizes: Sequence[int]) -> Any:
    at = dim % self.dim()
    return self.reshape(*self.shape[:at], *sizes, *self.shape[at + 1 :])


def _unstable(own: _Function) -> _Function:
    """Sorted by TopK, which takes the first of equal numbers: it is stable, and cannot be told to."""

    def call(*args: Any, stable: bool = False, **more: Any) -> Any:  # noqa: ARG001
        return own(*args, **more)

    return call
