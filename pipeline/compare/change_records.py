"""What two runs say about each other, as records: one for each figure that both have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...models.errors import Exit
from ..result.schema import Verdict


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
    METRIC = "metric"
    SIZE = "size"
    LATENCY = "latency"
    MEMORY = "memory"


@dataclass(frozen=True)
class FigureChange:
    """One figure of an artifact in both runs. `change` is after - before for drift (dB) and metric (its unit), and
    after / before for latency, size and memory."""

    artifact: str
    runtime: str | None
    batch: int | None
    figure: FigureKind
    before: float | str | None
    after: float | str | None
    change: float | None
    ci95: tuple[float, float] | None
    limit: float | None
    verdict: Change
    reason: str  # one sentence
    unit: str | None = None  # of a metric


@dataclass(frozen=True)
class RunComparison:
    """A run against an earlier one.
    `differences`: how their machines differ. If there is one, latencies and memory are not compared."""

    before: str  # id of the run
    after: str
    differences: tuple[str, ...]
    new: tuple[str, ...]  # names of artifacts; "ARTIFACT in RUNTIME" where only the runtime is new
    gone: tuple[str, ...]
    figures: tuple[FigureChange, ...]

    def count(self, change: Change) -> int:
        """Return how many figures have this verdict."""
        return sum(row.verdict is change for row in self.figures)

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """Verdict and exit status: worse before inconclusive before pass. What is not compared decides nothing."""
        if self.count(Change.WORSE):
            return Verdict.FAIL, Exit.FAIL
        if self.count(Change.INCONCLUSIVE) or self.count(Change.NOT_COMPARED) == len(self.figures):
            return Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE
        return Verdict.PASS, Exit.PASS

    @property
    def headline(self) -> str:
        """The comparison in one sentence."""
        counts = ", ".join(f"{count} {change}" for change in Change if (count := self.count(change)))
        return f"{self.after} against {self.before}: {counts or 'no figure in common'}"
