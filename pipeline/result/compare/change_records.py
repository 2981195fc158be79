"""What two runs say about each other, as records: one for each figure that both have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Interval: TypeAlias = tuple[float, float]  # low, high


class Change(StrEnum):
    """How a figure of the later run compares with that of the earlier one."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"  # within its limit
    INCONCLUSIVE = "inconclusive"
    NOT_COMPARED = "not compared"  # the two may not stand beside each other; the reason says why


class FigureKind(StrEnum):
    """What is compared."""

    STATUS = "status"
    DRIFT = "drift"
    METRIC = "metric"  # the new source against the old one, and the new copy against the old copy
    METRIC_DRIFT = "metric drift"  # what a copy loses on its own source, against what the old copy lost on its own
    PRESENCE = "presence"  # what the earlier run had and the later one has not
    SIZE = "size"
    LATENCY = "latency"
    MEMORY = "memory"


class CompareMethod(StrEnum):
    """How latencies and memory were compared."""

    SEPARATE = "separate runs"  # each one's ratio to its own run's reference
    SIDE_BY_SIDE = "side by side"  # the artifacts of both runs were measured again, in the same rounds


SECONDS = "s"  # the unit of latencies that were measured side by side; others are ratios and have none


@dataclass(frozen=True)
class FigureChange:
    """One figure of an artifact in both runs; "source" is what the copies were made from. `change` is after - before
    for drift (dB) and metric (its unit), and after / before for latency, size and memory."""

    artifact: str
    runtime: str | None
    batch: int | None
    figure: FigureKind
    before: float | str | None
    after: float | str | None
    change: float | None
    ci95: Interval | None
    limit: float | None
    verdict: Change
    reason: str  # one sentence
    unit: str | None = None  # of a metric, or SECONDS
    samples_needed: int | None = None  # of a metric: about so many would decide it
    detectable_loss: float | None = None  # of a metric: the smallest that this test set shows to be beyond the limit
    verdict_interval: Interval | None = None  # that decided where it is not ci95: it allows for several looks


@dataclass(frozen=True)
class RunComparison:
    """A run against an earlier one.
    `differences`: how their machines differ. If there is one, latencies and memory are compared side by side only."""

    before: str  # id of the run
    after: str
    differences: tuple[str, ...]
    new: tuple[str, ...]  # names of artifacts; "ARTIFACT in RUNTIME" where only the runtime is new
    gone: tuple[str, ...]
    figures: tuple[FigureChange, ...]
    method: CompareMethod = CompareMethod.SEPARATE
    notes: tuple[str, ...] = ()  # what could not be measured side by side and why, and what speaks against it

    def count(self, change: Change) -> int:
        """Return how many figures have this verdict."""
        return sum(row.verdict is change for row in self.figures)

    @property
    def headline(self) -> str:
        """The comparison in one sentence."""
        counts = ", ".join(f"{count} {change}" for change in Change if (count := self.count(change)))
        return f"{self.after} against {self.before}: {counts or 'no figure in common'}"
