"""What slowed the machine itself down while something was measured: limits of the container, heat, falling clocks.

Linux counts the first two (cpu.stat of the control group, thermal_throttle of the processors). The clock is sampled
between rounds, when the processor that has just worked is still fast: the fastest one is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from .gpu_throttling import gpu_held_s

_PROC, _SYS = Path("/proc"), Path("/sys")
_SAMPLE_S = 0.5  # between two reads of the clock: on many processors a read takes milliseconds
_LEAST_SAMPLES = 8  # of the clock, from which a fall is told

Seconds = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Throttling:
    """What held the measured processes back."""

    elapsed_s: float
    held_s: float = 0.0  # in which the container's limit held them back
    quota_cores: float | None = None  # the container's limit
    clock_fall: float = 0.0  # share by which the clock fell from the first to the second half
    heat_events: int = 0  # of all processors
    gpu_held_s: float = 0.0  # in which heat or power held the GPU's clock down


def worst_throttling(all_sets: Iterable[Throttling]) -> Throttling | None:
    """Return the worst of each fact over several sets of processes; times count by their share. None of no set."""
    sets = [entry for entry in all_sets if entry.elapsed_s > 0]
    if not sets:
        return None
    held = max(sets, key=lambda entry: entry.held_s / entry.elapsed_s)
    gpu = max(sets, key=lambda entry: entry.gpu_held_s / entry.elapsed_s)
    return Throttling(
        held.elapsed_s,
        held.held_s,
        held.quota_cores,
        max(entry.clock_fall for entry in sets),
        max(entry.heat_events for entry in sets),
        gpu.gpu_held_s / gpu.elapsed_s * held.elapsed_s,
    )


def fastest_clock_mhz() -> float | None:
    """Return the clock of the fastest processor now; None where the system does not tell."""
    try:
        return max((entry.current for entry in psutil.cpu_freq(percpu=True)), default=0.0) or None
    except (OSError, RuntimeError, NotImplementedError, AttributeError):
        return None


@dataclass
class ThrottleMeter:
    """Counts from where it was started. Call `sample` between rounds."""

    started_s: float
    held_s: float
    heat_events: int
    gpu_s: float
    proc: Path
    sys: Path
    clock: Seconds
    frequency: Callable[[], float | None]
    gpu: Seconds
    samples_mhz: list[float] = field(default_factory=list)
    sampled_s: float = -np.inf

    @staticmethod
    def start(
        *,
        proc: Path = _PROC,
        sys: Path = _SYS,
        clock: Seconds = time.monotonic,
        frequency: Callable[[], float | None] = fastest_clock_mhz,
        gpu: Seconds = gpu_held_s,
    ) -> ThrottleMeter:
        """Begin to count. `gpu` returns the seconds for which the GPUs' clocks have been held down so far."""
        return ThrottleMeter(
            clock(), _held_s(proc, sys), _heat_events(sys), gpu(), proc, sys, clock, frequency, gpu
        )  # fmt: skip

    def sample(self) -> None:
        """Take the processor's clock, at most twice a second."""
        now = self.clock()
        if now - self.sampled_s >= _SAMPLE_S and (mhz := self.frequency()):
            self.samples_mhz.append(mhz)
            self.sampled_s = now

    def read(self) -> Throttling:
        """Return what held the machine back since the start."""
        return Throttling(
            self.clock() - self.started_s,
            max(0.0, _held_s(self.proc, self.sys) - self.held_s),
            quota_cores(self.proc, self.sys),
            _clock_fall(self.samples_mhz),
            max(0, _heat_events(self.sys) - self.heat_events),
            max(0.0, self.gpu() - self.gpu_s),
        )


def quota_cores(proc: Path = _PROC, sys: Path = _SYS) -> float | None:
    """Return how many processors the container may use at a time; None without a limit."""
    quotas = [quota for group in _cpu_groups(proc, sys) if (quota := _quota(group))]
    return min(quotas, default=None)


def _quota(group: Path) -> float | None:
    """Read version 2's cpu.max, "QUOTA PERIOD", or version 1's two files; "max" and -1 mean no limit."""
    words = _read(group / "cpu.max").split()
    if not words:
        words = [*_read(group / "cpu.cfs_quota_us").split(), *_read(group / "cpu.cfs_period_us").split()]
    return int(words[0]) / int(words[1]) if len(words) == 2 and words[0].isdecimal() and int(words[1]) else None


def _held_s(proc: Path, sys: Path) -> float:
    """Seconds in which this process's control group, or one above it, was held back by its limit."""
    held = [0.0]
    for group in _cpu_groups(proc, sys):
        facts = dict(line.split(maxsplit=1) for line in _read(group / "cpu.stat").splitlines() if " " in line)
        held.append(int(facts.get("throttled_usec", 0)) / 1e6 + int(facts.get("throttled_time", 0)) / 1e9)
    return max(held)


def _cpu_groups(proc: Path, sys: Path) -> list[Path]:
    """Return the folders of the control groups that limit this process, its own first.
    In a container the path of its own group may name a folder of the host; the root is then the container's group."""
    folders: list[Path] = []
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = sys / "fs" / "cgroup" / ("cpu" if controllers else "")
        own = root / path.strip().lstrip("/")
        folders += [folder for folder in (own, *own.parents) if folder.is_relative_to(root) and folder.is_dir()]
    return folders


def _heat_events(sys: Path) -> int:
    """Return how often the processors have lowered their clocks for heat so far; 0 where they do not count it."""
    counts = sys.glob("devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")
    return sum(int(_read(file).strip() or 0) for file in counts)


def _clock_fall(samples_mhz: list[float]) -> float:
    if len(samples_mhz) < _LEAST_SAMPLES:
        return 0.0
    middle = len(samples_mhz) // 2
    before, after = float(np.median(samples_mhz[:middle])), float(np.median(samples_mhz[middle:]))
    return max(0.0, 1 - after / before)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
