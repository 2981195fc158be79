"""The energy that an NVIDIA GPU spends, as its driver counts it (NVML).

The counter is in mJ and moves every 20 to 100 ms, so it is read around at least a second of calls. It is that of the
whole board: what the GPU draws at rest is in it, and so is other work on the same GPU.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

from .gpu_throttling import load_nvml

LEAST_S = 1.0  # between two readings


def gpu_energy_j(device: str, library: Any | None = None, environ: Mapping[str, str] = os.environ) -> float | None:
    """Return the energy in J that `cuda[:N]` has spent since its driver was loaded; None where that is not known: a
    CPU, no driver, a GPU without the counter, or several GPUs of which CUDA's order is not NVML's.
    `library` is NVML; without it, the driver's own."""
    if not device.startswith("cuda"):
        return None
    nvml: Any = library or load_nvml()
    handle = None if nvml is None else _handle(nvml, device, environ)
    spent_mj = ctypes.c_ulonglong()
    if handle is None or nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(spent_mj)) != 0:
        return None
    return spent_mj.value / 1e3


def _handle(nvml: Any, device: str, environ: Mapping[str, str]) -> ctypes.c_void_p | None:
    count, handle = ctypes.c_uint(), ctypes.c_void_p()
    if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return None
    number = int(device.partition(":")[2] or 0)
    visible = [part.strip() for part in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    name = visible[number] if number < len(visible) else str(number)
    if not name.isdigit():
        status = nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
    elif count.value == 1 or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":  # else CUDA's 0 is the fastest one
        status = nvml.nvmlDeviceGetHandleByIndex_v2(int(name), ctypes.byref(handle))
    else:
        return None
    return handle if status == 0 else None
