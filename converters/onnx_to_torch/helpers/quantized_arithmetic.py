"""Small integers with a scale and a zero point."""

from __future__ import annotations

from ..lazy_torch import Tensor, torch


def quantized(x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int) -> Tensor:
    """Return round(x / scale) + zero, halves to even, cut to low .. high; in the dtype of zero."""
    return torch.clamp(torch.round(x.to(scale.dtype) / scale) + zero.to(scale.dtype), low, high).to(zero.dtype)


def dequantized(x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Return (x - zero) scale, in the dtype of scale; multiplied in float32."""
    difference = x.to(torch.int32) - zero.to(torch.int32)
    return (difference.to(torch.float32) * scale.to(torch.float32)).to(scale.dtype)


def rescaled(sums: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Return integers times a scale, rounded, halves to even, plus a zero point; in its dtype, saturated."""
    kind = torch.iinfo(zero.dtype)
    return torch.clamp(torch.round(sums.float() * scale) + zero.float(), kind.min, kind.max).to(zero.dtype)


def in_blocks(part: Tensor, axis: int, block: int, size: int) -> Tensor:
    """Repeat each place along an axis `block` times; the last block is cut where the axis ends."""
    return part.repeat_interleave(block, axis).narrow(axis, 0, size)


def rounded_to(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Round floats, halves to even, into the range of an integer dtype."""
    kind = torch.iinfo(dtype)
    return torch.clamp(torch.round(x), kind.min, kind.max).to(dtype)


def quantized_by_range(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantize to uint8 by the tensor's own range, 0 included. Return the integers, the scale and the zero point. Where
    all is zero the scale is 1."""
    low, high = torch.clamp(x.min(), max=0), torch.clamp(x.max(), min=0)
    scale = torch.where(low == high, torch.ones_like(high), (high - low) / 255)
    zero = torch.round(torch.clamp(-low / scale, 0, 255))
    return torch.clamp(torch.round(x / scale) + zero, 0, 255).to(torch.uint8), scale, zero.to(torch.uint8)
