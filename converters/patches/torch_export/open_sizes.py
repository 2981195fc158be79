"""Functions of PyTorch in which torch.export makes a constant of an axis' size, or whose dtype ONNX lacks, rewritten.

Each function here takes what PyTorch's own takes, and returns None where PyTorch's own will do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial, reduce, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

from ..ledger import Patch, swapped, swaps
from ..torch_shared.linspace import line
from .global_pools import avg_pool, max_pool
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
    """Return places (N, [D,] H, W, 2 or 3) in a picture of `size` (N, C, [D,] H, W), by AffineGridGenerator.cpp."""
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
    """Return steps whose outer middles lie at -1 and 1 with `align_corners`, else their outer edges; one alone at 0."""
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


def _einsum(equation: object, *operands: Tensor | Sequence[Tensor]) -> Tensor | None:
    """Return the einsum of three tensors and more as einsums of two, one after another.

    PyTorch chooses the order of the products by the sizes. None for up to two tensors, and for unnamed axes (`...`).
    """
    import torch

    first = operands[0]
    tensors: Sequence[Tensor] = first if len(operands) == 1 and isinstance(first, tuple | list) else operands  # type: ignore[assignment]  # a list, or tensors
    if not isinstance(equation, str) or "." in equation or len(tensors) <= _TWO:
        return None
    terms, output = _parsed(equation)
    labels, product = terms[0], tensors[0]
    for at, (term, tensor) in enumerate(zip(terms[1:], tensors[1:], strict=True), 2):
        later = set(output).union(*terms[at:])
        kept = "".join(label for label in dict.fromkeys(labels + term) if label in later)
        product = torch.einsum(f"{labels},{term}->{kept}", product, tensor)
        labels = kept
    return torch.einsum(f"{labels}->{output}", product)


_TWO = 2


def _parsed(equation: str) -> tuple[Sequence[str], str]:
    """Return the labels of each tensor, and of the output: by default those that occur once, sorted."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    single = (label for label in sorted(set(inputs) - {","}) if inputs.count(label) == 1)
    return inputs.split(","), output if arrow else "".join(single)


def _bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return nn.Bilinear's answer, which is such an einsum."""
    import torch

    product = (torch.einsum("...i,kij->...kj", input1, weight) * input2.unsqueeze(-2)).sum(-1)
    return product if bias is None else product + bias


def _frequencies(
    n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, from_zero: bool = False, **settings: object
) -> Tensor | None:
    """Return all frequencies, (n,), the negative ones last; or those from 0 on, (n // 2 + 1,).

    None for settings other than the device.
    """
    import torch

    if settings.keys() - {"device"}:
        return None
    at = torch.arange(n // 2 + 1 if from_zero else n, **settings)  # type: ignore[call-overload]  # the device
    at = at if from_zero else torch.where(at < (n + 1) // 2, at, at - n)
    return at.to(dtype or torch.get_default_dtype()) * (1.0 / (n * d))


def _istft(  # noqa: PLR0917  (PyTorch's own arguments)
    input: Tensor,  # noqa: A002
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor | None:
    """Return the wave (..., samples) of a spectrum (..., frequencies, frames); None where PyTorch's own will do.

    Formula: istft in SpectralOps.cpp. Where the windows sum to 0, which PyTorch refuses, the sample is 0.
    """
    import torch

    is_open = any(isinstance(size, torch.SymInt) for size in (*input.shape, length))
    if not is_open or return_complex or onesided is False or input.shape[-2] != n_fft // 2 + 1:
        return None
    hop, size = hop_length or n_fft // 4, win_length or n_fft
    taper = torch.ones(size, dtype=input.dtype.to_real(), device=input.device) if window is None else window
    before = (n_fft - size) // 2
    taper = torch.nn.functional.pad(taper, (before, n_fft - size - before))
    frames = torch.fft.irfft(input.transpose(-1, -2), n_fft, norm="ortho" if normalized else "backward")
    total = _overlap_added(frames * taper, hop)
    weight = _overlap_added((taper * taper).expand(input.shape[-1], n_fft), hop)
    wave = total / torch.where(weight > _LEAST_WEIGHT, weight, 1.0)
    edge = n_fft // 2 if center else 0
    if length is None:
        return wave[..., edge : edge + n_fft - 2 * edge + hop * (input.shape[-1] - 1)]
    return torch.nn.functional.pad(wave[..., edge:], (0, length))[..., :length]


def _overlap_added(frames: Tensor, hop: int) -> Tensor:
    """Return the sum of frames (..., count, size), each shifted by `hop` against the one before: (..., samples).

    Each frame is cut into pieces of `hop` samples. The first pieces make a wave, and the second ones a wave that
    begins one piece later.
    """
    import torch

    pad = torch.nn.functional.pad
    count = -(-frames.shape[-1] // hop)
    filled = pad(frames, (0, count * hop - frames.shape[-1]))
    shifted = (
        pad(filled[..., at * hop : (at + 1) * hop], (0, 0, at, count - 1 - at))  # (..., frames + count - 1, hop)
        for at in range(count)
    )
    return reduce(torch.add, shifted).flatten(-2)


_LEAST_WEIGHT = 1e-11  # of the sum of squares of windows: PyTorch refuses less


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
_FREQUENCIES: Mapping[str, _Function] = {"fftfreq": _frequencies, "rfftfreq": partial(_frequencies, from_zero=True)}
_ATEN = "aten/src/ATen"
_POOLS = f"{_ATEN}/native/Pool.h"
PATCHES = (
    *_rewritten("torch", _CONSTANT, "torch/_refs/__init__.py (linspace)", {"linspace": line}),
    *_rewritten("torch", _WINDOW, _POOLS, {"avg_pool1d": _AVERAGES["avg_pool1d"], **_MAXIMA}),
    *_rewritten("torch.nn.functional", _WINDOW, _POOLS, _AVERAGES),
    *_rewritten(
        "torch",
        "Chooses a matrix product from 26 rows on, so that a program holds for one side of it.",
        f"{_ATEN}/native/Distance.cpp (cdist_impl)",
        {"cdist": _cdist},
    ),
    *_rewritten(
        "torch.nn.functional", _CONSTANT, "torch/nn/functional.py", {"one_hot": _one_hot, "affine_grid": _affine_grid}
    ),
    *_rewritten("torch", _CONSTANT, f"{_ATEN}/native/AffineGridGenerator.cpp", {"affine_grid_generator": _affine_grid}),
    *_rewritten("torch", _CONSTANT, f"{_ATEN}/native/SpectralOps.cpp", {"istft": _istft}),
    *_rewritten("torch.fft", _CONSTANT, "torch/_refs/fft.py", _FREQUENCIES),
    *_rewritten("torch", _DECIDES, f"{_ATEN}/ExpandUtils.h", {"take_along_dim": _take_along}),
    *_rewritten("torch.Tensor", _DECIDES, f"{_ATEN}/ExpandUtils.h", {"take_along_dim": _take_along}),
    *_rewritten(
        "torch", "Orders the products of three tensors by their sizes.", "torch/functional.py", {"einsum": _einsum}
    ),
    *_rewritten("torch.nn.functional", _DECIDES, f"{_ATEN}/native/Linear.cpp", {"bilinear": _bilinear}),
    *_rewritten(
        "torch",
        "Makes one complex tensor, which the dynamo exporter does not hold as a pair of real ones.",
        "torch/onnx/_internal/exporter/_core.py",
        {"zeros": _complex_zeros},
        until="the dynamo exporter writes complex constants",
    ),
)
