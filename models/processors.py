"""The processors that this process may use."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path


@cache
def cpu_model() -> str:
    """Return the processor's name as Linux has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def core_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))
