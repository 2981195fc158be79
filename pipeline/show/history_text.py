"""Runs over time as text: cells for the page and the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..drift.metrics.metric_kinds import SHARE
from ..drift.metrics.metric_text import format_value
from ..result.compare.history_records import HistoryPoint, RunHistory
from . import units
from .tables.printers import to_sections
from .tables.table import Cell, CellKind, Column, Table, columns

MARK = "*"
_COLUMNS = (
    Column(""), *columns(CellKind.PHRASE, "run", "machine"), Column("status", CellKind.VERDICT),
    *columns(CellKind.NUMBER, "drift", "metric"), Column("p50", CellKind.SECONDS), Column("ratio", CellKind.NUMBER),
    *columns(CellKind.BYTES, "size", "memory"),
)  # fmt: skip


def history_table(history: RunHistory, points: Sequence[HistoryPoint]) -> Table:
    """Return a row for each run of these points. A mark stands where machine or libraries changed."""
    machines = {run.id: run.machine for run in history.runs}
    rows = [
        (
            subject(point.artifact, point.runtime), point.run, machines[point.run] + (MARK if point.changed else ""),
            point.status, point.drift if isinstance(point.drift, str) else units.decibel(point.drift), score(point),
            point.p50_s, Cell(units.ratio(point.ratio), _interval(point)), point.size_bytes, point.peak_rss_bytes,
        )
        for point in points
    ]  # fmt: skip
    return Table.of(_COLUMNS, rows)


def _interval(point: HistoryPoint) -> str:
    return "" if point.ratio_ci95 is None else f"[{point.ratio_ci95[0]:.2f}, {point.ratio_ci95[1]:.2f}]"


def history_lines(history: RunHistory, batch: int) -> list[str]:
    """Lines for a terminal: a table for each artifact in each runtime, the machines, and what changed where."""
    points = [point for group in history.series().values() for point in group]
    return [*to_sections(history_table(history, points)), "", *notes(history, batch)]


def subject(artifact: str, runtime: str | None) -> str:
    """Name an artifact in a runtime."""
    return units.plain(f"{artifact} in {runtime}" if runtime else artifact)


def score(point: HistoryPoint) -> str:
    """Format a point's metric in its unit; files from before units had shares."""
    if point.metric is None:
        return units.NONE
    return units.signed(
        format_value(point.metric, SHARE if point.metric_unit is None else units.plain(point.metric_unit))
    )


def notes(history: RunHistory, batch: int) -> list[str]:
    """Say what the columns are, which machines there are, what changed where, and which folders were skipped."""
    names = sorted({point.metric_name for point in history.points if point.metric_name})
    about = f"p50 and ratio (to the reference of its own run) at batch {batch}; drift: least SQNR"
    lines = [f"{about}; metric: {', '.join(names)}" if names else about]
    lines += [f"{key}: {text}" for key, text in history.machines.items()]
    if len(history.machines) > 1:
        lines.append("times and memory of unlike machines are not comparable")
    changes = dict.fromkeys((point.run, phrase) for point in history.points for phrase in point.changed)
    by_run: dict[str, list[str]] = {}
    for run, phrase in changes:
        by_run.setdefault(run, []).append(phrase)
    lines += [f"{MARK} {run}: {'; '.join(phrases)}" for run, phrases in by_run.items()]
    lines += [f"skipped: {sentence}" for sentence in history.skipped]
    return [units.plain(line) for line in lines]
