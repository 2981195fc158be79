"""How busy other programs kept the machine while something was measured, as the kernel counts it (Linux, /proc)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .statistics import Load

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class LoadMeter:
    """Counts from where it was started. `ours`: the processes that belong to the measurement, this one among them."""

    ours: tuple[int, ...]
    cores: int
    busy_s: float
    own_s: float
    started_s: float
    proc: Path = _PROC

    @staticmethod
    def start(
        pids: Iterable[int], cores: int, *, proc: Path = _PROC, clock: Callable[[], float] = time.monotonic
    ) -> LoadMeter:
        """Begin to count."""
        ours = (os.getpid(), *pids)
        return LoadMeter(ours, cores, _busy_s(proc), _spent_s(proc, ours), clock(), proc)

    def read(self, clock: Callable[[], float] = time.monotonic) -> Load | None:
        """Return what other programs used since the start, in cores; None if the kernel does not tell."""
        elapsed_s = clock() - self.started_s
        if not self.busy_s or elapsed_s <= 0:
            return None
        others_s = (_busy_s(self.proc) - self.busy_s) - (_spent_s(self.proc, self.ours) - self.own_s)
        return Load(max(0.0, others_s / elapsed_s), self.cores)


def _busy_s(proc: Path) -> float:
    """Seconds in which any processor worked, for anybody: user, nice, system, irq, softirq and steal of /proc/stat."""
    try:
        ticks = [int(word) for word in (proc / "stat").read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


def _spent_s(proc: Path, pids: Iterable[int]) -> float:
    """Processor seconds of processes with all their threads, and of the children that they have waited for."""
    total = 0
    for pid in pids:
        try:
            fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended
        total += sum(int(ticks) for ticks in fields[11:15])  # utime, stime, cutime, cstime
    return total / _TICKS_PER_S
