"""Functions of PyTorch in which torch.export makes a constant of an axis' size, or whose dtype ONNX lacks, rewritten.

Each function here takes what PyTorch's own takes, and returns None where PyTorch's own will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

from ....models.patch import Patch
from ..ledger import swapped, swaps
from ..torch_shared.linspace import line
from .einsum_pairs import bilinear, einsum
from .global_pools import avg_pool, max_pool
from .spectra import fftfreq, istft, rfftfreq
from .traced_replacements import take_along_dim

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_Function: TypeAlias = Callable[..., object]


def keeping_sizes() -> AbstractContextManager[None]:
    """Swap the functions while a model is captured."""
    return swapped(PATCHES)


def _or_own(rewritten: _Function) -> Callable[[_Function], _Function]:
    """Return a replacement that asks `rewritten` first, and PyTorch's own function if that returns None."""

    def replacement(own: _Function) -> _Function:
        @wraps(own)
        def call(*args: object, **keywords: object) -> object:
            answer = rewritten(*args, **keywords)
            return own(*args, **keywords) if answer is None else answer

        return call

    return replacement


def _complex_zeros(*size: Any, dtype: torch.dtype | None = None, **settings: Any) -> Tensor | None:
    """Return complex zeros made of two real tensors: else torch's exporter does not hold them as a pair."""
    import torch

    if dtype is None or not dtype.is_complex:
        return None
    real = torch.zeros(*size, dtype=dtype.to_real(), **settings)
    return torch.complex(real, real)


def _one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor | None:
    """Encode as many classes as an open axis is long. An index beyond them, which PyTorch refuses, is in no class."""
    import torch

    if not isinstance(num_classes, torch.SymInt):
        return None
    classes = torch.arange(num_classes, device=tensor.device)
    return (tensor.unsqueeze(-1) == classes).to(torch.int64)


def _cdist(x1: Tensor, x2: Tensor, p: float = 2.0, **_: object) -> Tensor | None:
    """Compute distances without the matrix product that PyTorch takes from 26 rows on: one way for every size."""
    import torch

    if not (_has_open_axis(x1) or _has_open_axis(x2)):
        return None
    distances: Tensor = torch.functional.cdist(x1, x2, p, compute_mode="donot_use_mm_for_euclid_dist")
    return distances


def _affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor | None:
    """Return the places (N, [D,] H, W, 2 or 3) in a picture of `size` (N, C, [D,] H, W).

    Formula: AffineGridGenerator.cpp.
    """
    import torch

    if not any(isinstance(length, torch.SymInt) for length in size):
        return None
    sizes = size[2:]
    lines = [_between_edges(theta, steps, align_corners) for steps in sizes]
    places = torch.stack([*torch.meshgrid(*lines, indexing="ij")][::-1], -1)  # x first
    count = len(sizes)
    rows = torch.nn.functional.pad(places.reshape(1, -1, count), (0, 1), value=1.0).expand(size[0], -1, -1)
    grid: Tensor = rows.bmm(theta.transpose(1, 2)).reshape(size[0], *sizes, count)
    return grid


def _between_edges(like: Tensor, steps: int, align_corners: bool | None) -> Tensor:
    """Return steps whose first and last middle lie at -1 and 1 with `align_corners`, else their edges do.

    A single step lies at 0.
    """
    import torch

    least: Any = torch.sym_min
    even = torch.linspace(-1, 1, steps, dtype=like.dtype, device=like.device)
    return even * least(steps - 1, 1) if align_corners else even * (steps - 1) / steps


def _take_along(self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor | None:
    if dim is None or not (_has_open_axis(self) or _has_open_axis(indices)):
        return None
    return take_along_dim(self, indices, dim)


def _has_open_axis(value: Tensor) -> bool:
    import torch

    return any(isinstance(size, torch.SymInt) for size in value.shape)


def _rewritten(
    owner: str, why: str, upstream: str, functions: Mapping[str, _Function], until: str = "torch.export keeps it open"
) -> tuple[Patch, ...]:
    replacements = {name: _or_own(function) for name, function in functions.items()}
    return swaps(owner, replacements, why=why, upstream=upstream, until=until)


_CONSTANT = "torch.export makes a constant of an open size among its arguments, or stops there."
_WINDOW = "torch.export pools with windows of known sizes alone."
_DECIDES = "Decides by an open size, of which torch.export makes a constant."
_AVERAGES = {f"avg_pool{axes}d": partial(avg_pool, axes=axes) for axes in (1, 2, 3)}
_MAXIMA = {f"max_pool{axes}d": partial(max_pool, axes=axes) for axes in (1, 2, 3)}
_POOLS = "aten/src/ATen/native/Pool.h"
PATCHES = (
    *_rewritten("torch", _CONSTANT, "torch/_refs/__init__.py (linspace)", {"linspace": line}),
    *_rewritten("torch", _WINDOW, _POOLS, {"avg_pool1d": _AVERAGES["avg_pool1d"], **_MAXIMA}),
    *_rewritten("torch.nn.functional", _WINDOW, _POOLS, _AVERAGES),
    *_rewritten(
        "torch",
        "Chooses a matrix product from 26 rows on, so that a program holds for one side of it.",
        "aten/src/ATen/native/Distance.cpp (cdist_impl)",
        {"cdist": _cdist},
    ),
    *_rewritten(
        "torch.nn.functional", _CONSTANT, "torch/nn/functional.py", {"one_hot": _one_hot, "affine_grid": _affine_grid}
    ),
    *_rewritten(
        "torch",
        _CONSTANT,
        "aten/src/ATen/native/AffineGridGenerator.cpp",
        {"affine_grid_generator": _affine_grid},
    ),
    *_rewritten("torch", _CONSTANT, "aten/src/ATen/native/SpectralOps.cpp", {"istft": istft}),
    *_rewritten("torch.fft", _CONSTANT, "torch/_refs/fft.py", {"fftfreq": fftfreq, "rfftfreq": rfftfreq}),
    *_rewritten("torch", _DECIDES, "aten/src/ATen/ExpandUtils.h", {"take_along_dim": _take_along}),
    *_rewritten("torch.Tensor", _DECIDES, "aten/src/ATen/ExpandUtils.h", {"take_along_dim": _take_along}),
    *_rewritten(
        "torch", "Orders the products of three tensors by their sizes.", "torch/functional.py", {"einsum": einsum}
    ),
    *_rewritten("torch.nn.functional", _DECIDES, "aten/src/ATen/native/Linear.cpp", {"bilinear": bilinear}),
    *_rewritten(
        "torch",
        "Makes one complex tensor, which the dynamo exporter does not hold as a pair of real ones.",
        "torch/onnx/_internal/exporter/_core.py",
        {"zeros": _complex_zeros},
        until="the dynamo exporter writes complex constants",
    ),
)
