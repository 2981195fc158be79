"""Clocks, temperature, power and energy of a GPU, asked of the driver: through NVML, else nvidia-smi, else nothing.

`pynvml` is the module of `nvidia-ml-py`, which is optional. What the driver does not tell is None, never 0.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SMI_FIELDS = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")
_SMI_S = 20
_GPU_FIELDS = {
    "name": "name", "uuid": "uuid", "driver": "driver_version", "memory_mib": "memory.total",
    "most_sm_mhz": "clocks.max.sm", "power_limit_w": "power.limit",
}  # fmt: skip

Smi = Callable[[Sequence[str]], str | None]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the driver says at one moment."""

    sm_mhz: float | None = None
    memory_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    energy_j: float | None = None  # since the driver was loaded
    throttled: tuple[str, ...] | None = None  # what holds the clock down; None: not told


@dataclass(frozen=True, slots=True)
class Spent:
    """What a GPU spent between two readings, and how it is known."""

    energy_j: float | None
    source: str | None  # "counter", or "power" for power in the middle times seconds


def energy_between(before: Reading | None, middle: Reading | None, after: Reading | None, seconds: float) -> Spent:
    """Return the energy by the driver's counter, else by the power that it told in the middle."""
    if before and after and before.energy_j is not None and after.energy_j is not None:
        joules = after.energy_j - before.energy_j
        if joules > 0:  # a counter that stood still has a coarser tick than the time between
            return Spent(joules, "counter")
    if middle and middle.power_w is not None:
        return Spent(middle.power_w * seconds, "power")
    return Spent(None, None)


# nvml.h, nvmlClocksThrottleReason*: what an idle or a user-set clock is, is no throttling by heat or power.
_THROTTLES = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "heat (software)", 0x40: "heat (hardware)",
              0x80: "power brake"}  # fmt: skip


class Meter:
    """Readings of one GPU. `source` says what they come from: nvml, nvidia-smi or None."""

    def __init__(
        self, device: str, *, nvml: Any = None, smi: Smi | None = None, environ: Mapping[str, str] = os.environ
    ):
        self.source: str | None = None
        self._nvml, self._handle, self._smi, self._gpu = None, None, smi or run_smi, ""
        if not device.startswith("cuda"):
            return
        self._gpu = visible_gpu(device, environ)
        nvml = nvml or _load_nvml()
        if nvml is not None:
            try:
                nvml.nvmlInit()
                find = nvml.nvmlDeviceGetHandleByIndex if self._gpu.isdigit() else nvml.nvmlDeviceGetHandleByUUID
                self._handle = find(int(self._gpu) if self._gpu.isdigit() else self._gpu)
                self._nvml, self.source = nvml, "nvml"
            except nvml.NVMLError:
                self._handle = None
        if self._handle is None and self.read() is not None:
            self.source = "nvidia-smi"

    def read(self) -> Reading | None:
        """Ask the driver; None where it does not answer or the device is no GPU."""
        if not self._gpu:
            return None
        if self._handle is not None:
            return self._read_nvml()
        text = self._smi((f"--query-gpu={','.join(SMI_FIELDS)}", "-i", self._gpu))
        return parse_smi(text) if text else None

    def _read_nvml(self) -> Reading:
        nvml, handle = self._nvml, self._handle
        assert nvml is not None

        def ask(name: str, *options: Any) -> Any:
            try:
                return getattr(nvml, name)(handle, *options)
            except (nvml.NVMLError, AttributeError):  # this GPU or this driver does not tell
                return None

        milliwatts, millijoules = ask("nvmlDeviceGetPowerUsage"), ask("nvmlDeviceGetTotalEnergyConsumption")
        mask = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return Reading(
            sm_mhz=ask("nvmlDeviceGetClockInfo", 1),  # NVML_CLOCK_SM
            memory_mhz=ask("nvmlDeviceGetClockInfo", 2),  # NVML_CLOCK_MEM
            temperature_c=ask("nvmlDeviceGetTemperature", 0),  # NVML_TEMPERATURE_GPU
            power_w=None if milliwatts is None else milliwatts / 1e3,
            energy_j=None if millijoules is None else millijoules / 1e3,
            throttled=None if mask is None else tuple(word for bit, word in _THROTTLES.items() if mask & bit),
        )


def visible_gpu(device: str, environ: Mapping[str, str]) -> str:
    """Return the driver's number or UUID of `cuda[:N]`: frameworks count what CUDA_VISIBLE_DEVICES leaves."""
    index = int(device.partition(":")[2] or 0)
    visible = [part.strip() for part in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    return visible[index] if index < len(visible) else str(index)


def parse_smi(text: str) -> Reading | None:
    """Read one line of SMI_FIELDS without header and units; None where it is no such line."""
    parts = [part.strip() for part in text.strip().splitlines()[0].split(",")] if text.strip() else []
    if len(parts) != len(SMI_FIELDS):
        return None
    sm_mhz, memory_mhz, temperature_c, power_w = map(_number, parts)
    return Reading(sm_mhz, memory_mhz, temperature_c, power_w)


def _number(text: str) -> float | None:
    """A number; None for [N/A], [Not Supported] and the like."""
    try:
        return float(text)
    except ValueError:
        return None


def run_smi(options: Sequence[str]) -> str | None:
    """Run nvidia-smi with a query; None where there is none or it fails."""
    tool = shutil.which("nvidia-smi")
    if not tool:
        return None
    try:
        done = subprocess.run(
            [tool, *options, "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=_SMI_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _load_nvml() -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def describe_gpu(device: str, smi: Smi = run_smi, environ: Mapping[str, str] = os.environ) -> dict[str, Any] | None:
    """Return name, UUID, driver, memory, highest clock and power limit of the GPU; None on a CPU."""
    if not device.startswith("cuda"):
        return None
    text = smi((f"--query-gpu={','.join(_GPU_FIELDS.values())}", "-i", visible_gpu(device, environ)))
    parts = [part.strip() for part in (text or "").strip().split(",")]
    if len(parts) != len(_GPU_FIELDS):
        return dict.fromkeys(_GPU_FIELDS)
    words = dict(zip(_GPU_FIELDS, parts, strict=True))
    return {key: word if key in ("name", "uuid", "driver") else _number(word) for key, word in words.items()}


def describe_cpu() -> str:
    """Return the processor's name."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1] if match else platform.processor() or platform.machine()


def as_json(reading: Reading | None) -> dict[str, Any] | None:
    """A reading as JSON values."""
    return asdict(reading) if reading else None
