"""Runs over time, as records: one point for an artifact in a runtime in a run."""

from __future__ import annotations

from dataclasses import dataclass

from .change_records import Interval


@dataclass(frozen=True)
class HistoryPoint:
    """An artifact in a runtime in one run; without a runtime nothing was run. Numbers are null where there are none."""

    artifact: str
    runtime: str | None
    batch: int
    run: str  # id
    status: str
    drift: float | str | None = None  # least SQNR in dB, "identical" or "no numbers"
    metric_name: str | None = None
    metric: float | None = None  # the copy's own score
    metric_unit: str | None = None
    metric_ci95: Interval | None = None  # of what the copy gains on its model
    metric_change: float | None = None
    p50_s: float | None = None
    ratio: float | None = None  # to the reference of its own run
    ratio_ci95: Interval | None = None
    size_bytes: int | None = None
    peak_rss_bytes: int | None = None
    conditions: str = ""  # of its latency: device, threads, server
    changed: tuple[str, ...] = ()  # how machine and libraries differ from those of its point before


@dataclass(frozen=True)
class HistoryRun:
    """A run, and its machine: one key for each machine, m1 for the first run's."""

    id: str
    started_at: str
    verdict: str
    machine: str
    folder: str  # or its page in MLflow


@dataclass(frozen=True)
class RunHistory:
    """Runs in the order of time."""

    runs: tuple[HistoryRun, ...]
    machines: dict[str, str]  # key -> what it is
    points: tuple[HistoryPoint, ...]
    skipped: tuple[str, ...]  # a sentence for each folder that is no run

    def series(self) -> dict[tuple[str, str | None], list[HistoryPoint]]:
        """Return the points of each artifact in each runtime, in the order of time."""
        groups: dict[tuple[str, str | None], list[HistoryPoint]] = {}
        for point in self.points:
            groups.setdefault((point.artifact, point.runtime), []).append(point)
        return groups
