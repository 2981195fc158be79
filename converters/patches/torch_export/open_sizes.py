"""Functions of PyTorch's that torch.export makes a constant of an axis' size in, or whose kind of number ONNX lacks,
written otherwise while a model is captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any

from ..torch_shared.linspace import line
from ..torch_shared.replaced import Instead, replaced
from .einsum_pairs import bilinear, einsum
from .global_pools import avg_pool, max_pool
from .spectra import fftfreq, istft, rfftfreq
from .traced_replacements import take_along_dim

_Function = Callable[..., Any]  # of a function's arguments what is taken instead; None: the function itself will do


def keeping_sizes() -> AbstractContextManager[None]:
    """While a model is captured."""
    return replaced(_table())


def _table() -> Iterator[Instead]:
    import torch

    table: tuple[tuple[Any, str, _Function], ...] = (
        (torch, "linspace", line),
        (torch, "zeros", _complex_zeros),
        (torch, "avg_pool1d", partial(avg_pool, axes=1)),
        *((torch.nn.functional, f"avg_pool{axes}d", partial(avg_pool, axes=axes)) for axes in (1, 2, 3)),
        *((torch, f"max_pool{axes}d", partial(max_pool, axes=axes)) for axes in (1, 2, 3)),
        (torch, "cdist", _cdist),
        (torch.nn.functional, "one_hot", _one_hot),
        (torch.nn.functional, "affine_grid", _affine_grid),
        (torch, "affine_grid_generator", _affine_grid),
        (torch, "istft", istft),
        (torch.fft, "fftfreq", fftfreq),
        (torch.fft, "rfftfreq", rfftfreq),
        (torch, "take_along_dim", _take_along),
        (torch, "einsum", einsum),
        (torch.nn.functional, "bilinear", bilinear),
        (torch.Tensor, "take_along_dim", _take_along),
    )
    for owner, name, instead in table:
        yield Instead(owner, name, _or_else(instead, getattr(owner, name)))


def _or_else(instead: _Function, own: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(own)
    def call(*args: Any, **more: Any) -> Any:
        found = instead(*args, **more)
        return own(*args, **more) if found is None else found

    return call


def _complex_zeros(*size: Any, dtype: Any = None, **more: Any) -> Any:
    """Zeros of two real parts: where no complex number comes in, torch's exporter holds none as a pair. None where real
    ones are asked for."""
    import torch

    if dtype is None or not dtype.is_complex:
        return None
    real = torch.zeros(*size, dtype=dtype.to_real(), **more)
    return torch.complex(real, real)


def _one_hot(tensor: Any, num_classes: Any = -1) -> Any:
    """Of as many classes as an axis is long. An index beyond them, which PyTorch refuses, is in no class."""
    import torch

    if not isinstance(num_classes, torch.SymInt):
        return None
    classes: Any = torch.arange(num_classes, device=tensor.device)  # type: ignore[call-overload]  # it takes a SymInt
    return (tensor.unsqueeze(-1) == classes).to(torch.int64)


def _cdist(x1: Any, x2: Any, p: float = 2.0, **_: Any) -> Any:
    """Without the product of matrices that PyTorch takes from 26 rows on: one way for every size."""
    import torch

    if not (_has_open_axis(x1) or _has_open_axis(x2)):
        return None
    return torch.functional.cdist(x1, x2, p, compute_mode="donot_use_mm_for_euclid_dist")


def _affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """Places (N, [D,] H, W, 2 or 3) of a picture of `size` (N, C, [D,] H, W). Formula: AffineGridGenerator.cpp."""
    import torch

    if not any(isinstance(each, torch.SymInt) for each in size):
        return None
    sizes = size[2:]
    lines = [_between_edges(theta, steps, align_corners) for steps in sizes]
    places = torch.stack([*torch.meshgrid(*lines, indexing="ij")][::-1], -1)  # x first
    count = len(sizes)
    whole = torch.nn.functional.pad(places.reshape(1, -1, count), (0, 1), value=1.0).expand(size[0], -1, -1)
    return whole.bmm(theta.transpose(1, 2)).reshape(size[0], *sizes, count)


def _between_edges(like: Any, steps: Any, align_corners: bool | None) -> Any:
    """Steps of which the middles of the first and the last are at -1 and 1 with `align_corners`, else their edges. One
    step is at 0."""
    import torch

    least: Any = torch.sym_min
    made = torch.linspace(-1, 1, steps, dtype=like.dtype, device=like.device)
    return made * least(steps - 1, 1) if align_corners else made * (steps - 1) / steps


def _take_along(self: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None or not (_has_open_axis(self) or _has_open_axis(indices)):
        return None
    return take_along_dim(self, indices, dim)


def _has_open_axis(value: Any) -> bool:
    import torch

    return any(isinstance(size, torch.SymInt) for size in value.shape)
