"""The artifacts of two runs, measured again in the same rounds: times, ratios and memory, as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..ratio import Ratio


@dataclass(frozen=True)
class PairedLatency:
    """An artifact of both runs in one runtime at one batch size. Seconds are medians of a call."""

    artifact: str
    runtime: str
    batch: int
    before_s: float | None
    after_s: float | None
    ratio: Ratio | None  # after / before, in the same rounds
    processes: int  # sets of processes that both were in
    before_peak_bytes: int | None = None
    after_peak_bytes: int | None = None
    lost: str | None = None  # the sentence of a side that gave no times


@dataclass(frozen=True)
class SideBySide:
    """What was measured side by side; `left_out` says of artifacts why they were not."""

    rows: tuple[PairedLatency, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    needed_s: float | None = None  # an estimate of what an interval for every pair takes in all
    doubts: tuple[str, ...] = ()  # that all rows are under

    def of(self, artifact: str) -> tuple[PairedLatency, ...]:
        """Return the rows of an artifact."""
        return tuple(row for row in self.rows if row.artifact == artifact)
