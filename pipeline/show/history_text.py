"""Runs over time as text: cells for the page and the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..drift.metrics.metric_kinds import SHARE
from ..drift.metrics.metric_text import format_value
from ..result.compare.history_records import HistoryPoint, RunHistory
from . import units

HEADS = ("run", "machine", "status", "drift", "metric", "p50", "ratio", "size", "memory")
MARK = "*"


def history_lines(history: RunHistory, batch: int) -> list[str]:
    """Lines for a terminal: a table for each artifact in each runtime, the machines, and what changed where."""
    machines = {run.id: run.machine for run in history.runs}
    tables = {key: [point_cells(point, machines) for point in points] for key, points in history.series().items()}
    every = [HEADS, *(row for rows in tables.values() for row in rows)]
    widths = [max(len(row[at]) for row in every) for at in range(len(HEADS))]
    lines = [_joined(HEADS, widths)]
    for (artifact, runtime), rows in tables.items():
        lines += ["", subject(artifact, runtime), *(_joined(row, widths) for row in rows)]
    return [*lines, "", *notes(history, batch)]


def subject(artifact: str, runtime: str | None) -> str:
    """Name an artifact in a runtime."""
    return units.plain(f"{artifact} in {runtime}" if runtime else artifact)


def point_cells(point: HistoryPoint, machines: dict[str, str]) -> tuple[str, ...]:
    """Return the cells of a point, in the order of HEADS. A mark stands where machine or libraries changed."""
    drift = point.drift if isinstance(point.drift, str) else units.decibel(point.drift)
    interval = "" if point.ratio_ci95 is None else f" [{point.ratio_ci95[0]:.2f}, {point.ratio_ci95[1]:.2f}]"
    return (
        units.plain(point.run),
        machines[point.run] + (MARK if point.changed else ""),
        point.status,
        drift,
        score(point),
        units.duration(point.p50_s),
        units.ratio(point.ratio) + interval,
        units.size(point.size_bytes),
        units.size(point.peak_rss_bytes),
    )


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


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
