"""The processors that this process may use."""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from functools import cache
from pathlib import Path


@cache
def cpu_model() -> str:
    """Return the processor's name as Linux has it."""
    names = _cpuinfo("model name")
    return names[0] if names else platform.processor() or platform.machine()


@cache
def cpu_flags() -> frozenset[str]:
    """Return what the processor can do, in Linux's words; an empty set where the system does not say."""
    return frozenset(word for flags in _cpuinfo("flags") for word in flags.split())


_VNNI = frozenset({"avx512_vnni", "avx_vnni"})


def saturates_bytes(flags: Collection[str] | None = None) -> bool:
    """Return whether a processor multiplies bytes by an instruction that adds two products in 16 bits, which saturate:
    x86 with AVX2 and without VNNI. None: this processor's flags."""
    flags = cpu_flags() if flags is None else flags
    return "avx2" in flags and _VNNI.isdisjoint(flags)


def _cpuinfo(key: str) -> list[str]:
    """Return the values of a key of /proc/cpuinfo, one for each processor; an empty list on other systems."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.startswith(key)]


def core_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))
