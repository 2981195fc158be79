"""The ratio of two latencies, and what may be said of it (pipeline/measure/bench/comparison.py measures it)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LEAST_PROCESSES = 3  # an interval over fewer is none
SAME_WITHIN = 0.02


class Comparison(StrEnum):
    """What may be said of a ratio."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"  # within the share that was asked for
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Seconds of a call over the reference's; below 1 is faster. The intervals are None below three sets of
    processes."""

    center: float
    ci95: tuple[float, float] | None
    comparison: Comparison
    settling_processes: int | None = None  # sets of processes that would decide it, where it is inconclusive
    verdict_interval: tuple[float, float] | None = None  # wider than ci95: it is looked at several times

    @property
    def is_decided(self) -> bool:
        """Whether more processes would add nothing."""
        return self.comparison is not Comparison.INCONCLUSIVE
