"""How long heat or power held the clocks of NVIDIA GPUs down, as their driver counts it (NVML).

The driver's own library is called: it is there wherever a GPU is, and no package is needed.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_POWER, _THERMAL = 0, 1  # nvmlPerfPolicyType_t


class _ViolationTime(ctypes.Structure):
    """nvmlViolationTime_t: the time of the driver's clock, and how long a policy has held the clock down."""

    _fields_ = (("reference_us", ctypes.c_ulonglong), ("violation_ns", ctypes.c_ulonglong))


@cache
def load_nvml() -> Any | None:
    """Return the driver's library, ready to be asked; None where there is no driver."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def gpu_held_s(library: Any | None = None) -> float:
    """Return the seconds for which heat or power has held a GPU's clock down, of all GPUs the most; 0 without one.
    `library` is NVML; without it, the driver's own."""
    nvml = library or load_nvml()
    count = ctypes.c_uint()
    if nvml is None or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return 0.0
    return max((_held_s(nvml, at) for at in range(count.value)), default=0.0)


def _held_s(nvml: Any, at: int) -> float:
    device = ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByIndex_v2(at, ctypes.byref(device)) != 0:
        return 0.0
    total_ns = 0
    for policy in (_POWER, _THERMAL):
        violation = _ViolationTime()
        if nvml.nvmlDeviceGetViolationStatus(device, policy, ctypes.byref(violation)) == 0:
            total_ns += int(violation.violation_ns)
    return total_ns / 1e9
