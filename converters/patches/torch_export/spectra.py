"""Waves and frequencies of an open length, in functions that torch.export keeps it open in."""

from __future__ import annotations

from functools import reduce
from typing import Any


def rfftfreq(n: Any, d: float = 1.0, *, dtype: Any = None, **more: Any) -> Any:
    """Of the middle frequencies from 0 on: (n // 2 + 1,)."""
    import torch

    return None if more.keys() - {"device"} else _frequencies(torch.arange(n // 2 + 1, **more), n, d, dtype)


def fftfreq(n: Any, d: float = 1.0, *, dtype: Any = None, **more: Any) -> Any:
    """Of all: (n,), those below 0 behind."""
    import torch

    if more.keys() - {"device"}:
        return None
    at = torch.arange(n, **more)
    return _frequencies(torch.where(at < (n + 1) // 2, at, at - n), n, d, dtype)


def _frequencies(at: Any, n: Any, d: float, dtype: Any) -> Any:
    import torch

    return at.to(dtype or torch.get_default_dtype()) * (1.0 / (n * d))


def istft(  # noqa: PLR0917  (PyTorch's own arguments)
    input: Any,  # noqa: A002
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> Any:
    """The wave (..., samples) of a spectrum (..., frequencies, frames). Formula: istft in SpectralOps.cpp. Where the
    windows leave a sample at 0, which PyTorch refuses, it is 0. None where PyTorch's own will do."""
    import torch

    is_open = any(isinstance(size, torch.SymInt) for size in (*input.shape, length))
    if not is_open or return_complex or onesided is False or input.shape[-2] != n_fft // 2 + 1:
        return None
    hop, size = hop_length or n_fft // 4, win_length or n_fft
    own = torch.ones(size, dtype=input.dtype.to_real(), device=input.device) if window is None else window
    before = (n_fft - size) // 2
    own = torch.nn.functional.pad(own, (before, n_fft - size - before))
    frames = torch.fft.irfft(input.transpose(-1, -2), n_fft, norm="ortho" if normalized else "backward")
    total = _overlapped(frames * own, hop)
    weight = _overlapped((own * own).expand(input.shape[-1], n_fft), hop)
    wave = total / torch.where(weight > _NOTHING, weight, 1.0)
    edge = n_fft // 2 if center else 0
    if length is None:
        return wave[..., edge : edge + n_fft - 2 * edge + hop * (input.shape[-1] - 1)]
    return torch.nn.functional.pad(wave[..., edge:], (0, length))[..., :length]


def _overlapped(frames: Any, hop: int) -> Any:
    """The sum of frames (..., count, size), each `hop` places behind the one before: (..., places), and 0 behind them.
    Each is cut into pieces of `hop`; the first pieces are a wave, the second ones too, a piece later."""
    import torch

    pad = torch.nn.functional.pad
    times = -(-frames.shape[-1] // hop)
    filled = pad(frames, (0, times * hop - frames.shape[-1]))
    shifted = (
        pad(filled[..., at * hop : (at + 1) * hop], (0, 0, at, times - 1 - at))  # (..., count + times - 1, hop)
        for at in range(times)
    )
    return reduce(torch.add, shifted).flatten(-2)


_NOTHING = 1e-11  # of the sum of squares of windows: below that PyTorch refuses
