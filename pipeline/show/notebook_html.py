"""Results in a notebook: a verdict, compact tables and what speaks against them, as one escaped piece of HTML.

It names no file and no address to load, and takes the page's own colours: it is read on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ..result.compare.change_records import RunComparison
from ..result.compare.run_comparison import decide
from ..result.gate import answered
from ..result.schema import ArtifactRow, DriftRow, GateRow, LatencyRow, RunResult, Status, Verdict
from . import units, view
from .compare_text import change_lines, changed_and_same, describe
from .doubt_view import split_doubts
from .offline_page import render_part

# White letters are read on each. Words in cells that have a colour are chips.
_GREEN, _RED, _AMBER = "#0a6e4f", "#b3261e", "#8a5a00"
_COLOURS = {
    "pass": _GREEN, "verified": _GREEN, "better": _GREEN, "fail": _RED, "failed": _RED, "worse": _RED,
    "inconclusive": _AMBER, "unverified": _AMBER, "degraded": _AMBER,
}  # fmt: skip
_MOST_ROWS = 60  # of a table; the rest is in the folder
_MOST_DOUBTS = 3


@dataclass(frozen=True)
class NotebookTable:
    """A table as text: its heading and its rows."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def render_conversion(
    verdict: Verdict,
    artifacts: Mapping[str, Sequence[ArtifactRow]],
    agreement: Callable[[ArtifactRow], str],
    notes: Sequence[str],
    folder: Path,
) -> str:
    """Return a conversion as HTML: a row for each target.
    `artifacts`: by model, "" of the only one. `agreement` says how a target was verified, or why it is not there."""
    has_names = any(artifacts)
    cells = [
        (
            *([name] if has_names else []), units.plain(row.name), str(row.status), units.size(row.bytes),
            " > ".join(row.route), units.plain(agreement(row)),
        )
        for name, rows in artifacts.items()
        for row in rows
    ]  # fmt: skip
    statuses = [row.status for rows in artifacts.values() for row in rows]
    headline = f"{statuses.count(Status.VERIFIED)} of {len(statuses)} targets verified"
    head = (*(["model"] if has_names else []), "artifact", "status", "size", "route", "drift")
    headline = f"{len(artifacts)} models, {headline}" if has_names else headline
    return _render(verdict, headline, NotebookTable(head, cells), notes, folder)


def render_drift(
    verdict: Verdict, rows: Sequence[DriftRow], rules: Sequence[GateRow], notes: Sequence[str], folder: Path
) -> str:
    """Return a validation as HTML: a row for each artifact in each runtime."""
    head, *cells = view.drift_table(rows)
    table = NotebookTable(head, cells)
    kept = f"{sum(rule.verdict is Verdict.PASS for rule in rules)} of {len(rules)} checks passed"
    return _render(verdict, kept, table, notes, folder)


def render_latencies(verdict: Verdict, rows: Sequence[LatencyRow], notes: Sequence[str], folder: Path) -> str:
    """Return a measurement as HTML: a row for each artifact, runtime and batch size."""
    cells = [
        (
            units.plain(row.artifact), units.plain(row.runtime), units.plain(row.device), str(row.batch),
            units.duration(row.p50_s), units.duration(row.p99_s),
            f"{units.ratio(row.ratio_to_reference)} {units.deciding_interval(row)}".strip(), units.comparison(row),
        )
        for row in rows
    ]  # fmt: skip
    table = NotebookTable(
        ("artifact", "runtime", "device", "batch", "p50", "p99", "ratio [99.875 %]", "compared"), cells
    )
    headline = f"{sum(answered(row) for row in rows)} of {len(rows)} rows measured"
    return _render(verdict, headline, table, [*_doubts(rows), *notes], folder)


class NotebookRun(RunResult):
    """A run that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return render_run(self)


def in_notebook(result: RunResult) -> NotebookRun:
    """Return the same run, for notebooks."""
    return NotebookRun(**{field.name: getattr(result, field.name) for field in fields(result)})


def render_run(result: RunResult) -> str:
    """Return a run as HTML: a row for each artifact with status, size, worst drift, metric and latency."""
    cells = []
    for line in view.lines(result):
        metric = line.metric.metric if line.metric else None
        speeds = "; ".join(
            f"{units.plain(speed.runtime)} {units.duration(row.p50_s)} at batch {batch}"
            for speed in line.speeds
            for batch, row in sorted(speed.by_batch.items())
        )
        facts = (units.size(line.row.bytes if line.row else None), units.sqnr(line.worst), units.task_metric(metric))
        cells.append((units.plain(line.name), line.status, str(line.verdict or ""), *facts, speeds or units.NONE))
    table = NotebookTable(("artifact", "status", "gate", "size", "worst drift", "metric", "latency (p50)"), cells)
    return _render(result.verdict, view.headline(result), table, [*_doubts(result.latency), *result.doubts], None)


def render_comparison(comparison: RunComparison, folder: Path | None) -> str:
    """Return a comparison of two runs as HTML: a row for each figure that changed."""
    changed, same = changed_and_same(comparison)
    cells = [
        (line.artifact, line.figure, line.where, line.before, line.after, line.change, line.verdict)
        for line in change_lines(changed)
    ]
    table = NotebookTable(("artifact", "figure", "where", "before", "after", "change", "verdict"), cells)
    notes = [*([f"{len(same)} figures are the same"] if same else []), *describe(comparison)]
    return _render(decide(comparison)[0], units.plain(comparison.headline), table, notes, folder)


def _doubts(rows: Sequence[LatencyRow]) -> list[str]:
    doubts = split_doubts(rows)
    machine = [doubts.machine] if doubts.machine else []
    return machine + [f"{doubt.who}: {doubt.text}" for doubt in doubts.rows[:_MOST_DOUBTS]]


def _render(verdict: Verdict, headline: str, table: NotebookTable, notes: Sequence[str], folder: Path | None) -> str:
    """Return a result as HTML. `headline` says the verdict in words; `folder` is where all of it lies."""
    left = len(table.rows) - _MOST_ROWS
    more = [f"{left} further rows are not shown"] if left > 0 else []
    return render_part(
        "notebook.html.j2",
        verdict=str(verdict),
        headline=headline,
        head=table.head,
        rows=table.rows[:_MOST_ROWS],
        notes=[*more, *notes, *([f"in {folder}"] if folder else [])],
        colours=_COLOURS,
    )
