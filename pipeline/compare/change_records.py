"""What two runs say about each other, as records: one for each figure that both have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from ...models.errors import BadRequest, Exit
from ..result.schema import Verdict


class Change(StrEnum):
    """What may be said of a figure, the later run's against the earlier one's."""

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


class Method(StrEnum):
    """How latencies were compared."""

    SEPARATE = "separate runs"  # each one's ratio to its own reference
    REMEASURED = "measured together"  # the artifacts of both runs in the same rounds


@dataclass(frozen=True)
class CompareLimits:
    """How much a figure may change before it counts as better or worse."""

    drift_db: float = 6.0  # 6 dB: errors twice as large
    metric_loss: float = 0.01  # in the metric's own unit
    latency: float = 0.05  # share
    size: float = 0.05  # share
    memory: float = 0.10  # share

    def __post_init__(self) -> None:
        for name, limit in vars(self).items():
            if not 0 <= limit < math.inf:
                raise BadRequest(f"the limit {name} is {limit}", fix="use a finite number from 0 up")


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
    """A run against an earlier one. `differences`: of the machines, for which latencies and memory are not compared."""

    before: str  # id of the run
    after: str
    method: Method
    differences: tuple[str, ...]
    new: tuple[str, ...]  # artifacts, or "ARTIFACT in RUNTIME"
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
