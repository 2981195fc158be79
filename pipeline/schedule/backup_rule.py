"""When a step is begun once more on another node: it takes much longer than it should.

As in MapReduce (Dean and Ghemawat, OSDI 2004, section 3.6). Steps are pure, so that either result will do.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from math import inf
from statistics import median


@dataclass(frozen=True)
class BackupRule:
    """How late a step has to be, and how much of the cluster the copies may take while other steps wait.

    A step is late after `factor` times its expected time, as times differ from run to run, plus `margin_s`: a copy
    costs the start of a process and the transfer of its files, and a short step that is late holds up nobody. Idle
    cores cost nothing: while there are some, a step is late as soon as its expected time is over. The figures are those
    of the best runs of benchmarks/cluster/simulate.py.
    """

    factor: float = 1.25  # times the expected time
    margin_s: float = 5.0
    margin_of_idle_s: float = 1.0  # in place of both, while cores are idle
    most_share: float = 0.1  # of the cores; without other steps that wait, as many as there are
    most_attempts: int = 3  # at one step, the first one included
    long_s: float = 100.0  # expected time from which on a late step gets all its copies at once

    def late_after_s(self, expected_s: float | None, pace: float = 1.0, *, has_idle_cores: bool = False) -> float:
        """Return after which time a step is late. `expected_s`: None where nobody knows, and then it never is;
        `pace`: of the other steps of this run (Pace.value)."""
        if expected_s is None:
            return inf
        expected_s *= max(1.0, pace)
        return expected_s + self.margin_of_idle_s if has_idle_cores else self.factor * expected_s + self.margin_s

    def is_long(self, expected_s: float | None) -> bool:
        """Return whether a late step gets all its copies at once: a copy may be late as well, and a third attempt after
        that would end too late."""
        return expected_s is not None and expected_s >= self.long_s

    def most_copies(self, slots: int) -> int:
        """Return how many cores copies may take while other steps wait for one."""
        return max(1, int(self.most_share * slots))


class Pace:
    """How long the steps of this run take, over what was expected: machines or libraries may be slower than in the
    former run, and then no step is a straggler for it. Thread-safe."""

    _LEAST, _MOST = 5, 200  # steps that the median is of

    def __init__(self) -> None:
        self._ratios: deque[float] = deque(maxlen=self._MOST)
        self._lock = threading.Lock()

    def add(self, seconds: float, expected_s: float | None) -> None:
        """Take note of a step that was done."""
        if expected_s:
            with self._lock:
                self._ratios.append(seconds / expected_s)

    @property
    def value(self) -> float:
        """The median of the last steps; 1 before there are some."""
        with self._lock:
            return median(self._ratios) if len(self._ratios) >= self._LEAST else 1.0
