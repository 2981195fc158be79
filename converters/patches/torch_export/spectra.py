"""Waves and frequencies of an open length, by functions that keep the length open in torch.export."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **settings: object) -> Tensor | None:
    """Return the frequencies from 0 on, (n // 2 + 1,); None for settings other than the device."""
    import torch

    if settings.keys() - {"device"}:
        return None
    return _frequencies(torch.arange(n // 2 + 1, **settings), n, d, dtype)  # type: ignore[call-overload]  # the device


def fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **settings: object) -> Tensor | None:
    """Return all frequencies, (n,), the negative ones last; None for settings other than the device."""
    import torch

    if settings.keys() - {"device"}:
        return None
    at = torch.arange(n, **settings)  # type: ignore[call-overload]  # the device
    return _frequencies(torch.where(at < (n + 1) // 2, at, at - n), n, d, dtype)


def _frequencies(at: Tensor, n: int, d: float, dtype: torch.dtype | None) -> Tensor:
    import torch

    return at.to(dtype or torch.get_default_dtype()) * (1.0 / (n * d))


def istft(  # noqa: PLR0917  (PyTorch's own arguments)
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
