"""What a chip can do at most: its maker's figure where it is known, else what a large matmul reached on the spot.

Dense figures without sparsity, in TFLOP/s, from the makers' data sheets; tensor cores for all but fp32:
  H100, H200   NVIDIA H100 / H200 Tensor Core GPU data sheets (SXM5, PCIe, NVL)
  A100         NVIDIA A100 Tensor Core GPU data sheet
  A10, L4, L40S, L40   their product briefs
  V100, T4     NVIDIA V100 and T4 data sheets; neither has TF32 or bf16 in its tensor cores
  RTX 3090, RTX 4090   NVIDIA Ampere GA102 and Ada white papers; fp16 with accumulation in fp32
A data sheet's figure holds at the boost clock, which a chip under its power limit does not keep.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chip:
    """Peak rates of one product, in TFLOP/s by precision. `pattern` matches the driver's name of it."""

    pattern: str
    tflops: dict[str, float]


def _chip(pattern: str, fp32: float, tf32: float | None, fp16: float, bf16: float | None) -> Chip:
    rates = {"fp32": fp32, "tf32": tf32, "fp16": fp16, "bf16": bf16}
    return Chip(pattern, {name: rate for name, rate in rates.items() if rate is not None})


CHIPS = (  # the first that matches: the special ones stand before the usual ones
    _chip(r"H100 PCIe\b", 51.0, 378.0, 756.0, 756.0),
    _chip(r"H100 NVL\b", 60.0, 417.5, 835.5, 835.5),
    _chip(r"H100( 80GB HBM3|\s*SXM)", 67.0, 494.7, 989.4, 989.4),
    _chip(r"H200 NVL\b", 60.0, 417.5, 835.5, 835.5),
    _chip(r"H200\b", 67.0, 494.7, 989.4, 989.4),
    _chip(r"A100\b", 19.5, 156.0, 312.0, 312.0),
    _chip(r"A10\b", 31.2, 62.5, 125.0, 125.0),
    _chip(r"L40S\b", 91.6, 183.0, 362.05, 362.05),
    _chip(r"L40\b", 90.5, 90.5, 181.05, 181.05),
    _chip(r"L4\b", 30.3, 60.0, 121.0, 121.0),
    _chip(r"V100-SXM", 15.7, None, 125.0, None),
    _chip(r"V100-PCIE", 14.0, None, 112.0, None),
    _chip(r"\bT4\b", 8.1, None, 65.0, None),
    _chip(r"RTX 4090$", 82.6, 82.6, 165.2, 165.2),
    _chip(r"RTX 3090$", 35.6, 35.6, 71.0, 71.0),
)


@dataclass(frozen=True, slots=True)
class Limit:
    """A chip's limit at a precision, and where it comes from: "data sheet" or "measured matmul"."""

    flops_per_s: float
    source: str


def known_rates(gpu: str | None) -> dict[str, float]:
    """Return the data sheet's rates of a GPU in FLOP/s by precision; empty for one that is not in the table."""
    for chip in CHIPS:
        if gpu and re.search(chip.pattern, gpu):
            return {name: rate * 1e12 for name, rate in chip.tflops.items()}
    return {}


def limit_for(gpu: str | None, precision: str, matmul: dict[str, float]) -> Limit | None:
    """Return the limit: the data sheet's, else the largest matmul's of `matmul` (FLOP/s by precision), else None."""
    if rate := known_rates(gpu).get(precision):
        return Limit(rate, "data sheet")
    if rate := matmul.get(precision):
        return Limit(rate, "measured matmul")
    return None


def share_of_limit(flops: float, seconds: float, limit: Limit | None) -> float | None:
    """Return the achieved over the possible operations a second; None without a limit."""
    return flops / seconds / limit.flops_per_s if limit and seconds > 0 else None
