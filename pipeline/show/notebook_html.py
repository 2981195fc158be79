"""Results in a notebook: a verdict, compact tables and what speaks against them, as one escaped piece of HTML.

It names no file and no address to load, and takes the page's own colours: it is read on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from ..result.compare.change_records import RunComparison
from ..result.compare.run_comparison import decide
from ..result.gate import answered
from ..result.schema import ArtifactRow, DriftRow, GateRow, LatencyRow, RunResult, Status, Verdict
from . import units, view
from .compare_text import change_table, changed_and_same, describe
from .doubt_view import doubt_lines
from .offline_page import render_part
from .tables.check_tables import agreement_table
from .tables.latency_table import SHORT, latency_table
from .tables.printers import notebook_chip, to_notebook
from .tables.table import CellKind, Column, Table, columns

_MOST_ROWS = 60  # of a table; the rest is in the folder
_MOST_DOUBTS = 3


def render_conversion(
    verdict: Verdict,
    artifacts: Mapping[str, Sequence[ArtifactRow]],
    agreement: Callable[[ArtifactRow], str],
    notes: Sequence[str],
    folder: Path,
) -> str:
    """Return a conversion as HTML: a row for each target.
    `artifacts`: by model, "" of the only one. `agreement` says how a target was verified, or why it is not there."""
    heads = (
        Column("model", CellKind.NAME, is_optional=True), Column("artifact", CellKind.ARTIFACT),
        Column("status", CellKind.VERDICT), Column("size", CellKind.BYTES), Column("route"), Column("drift"),
    )  # fmt: skip
    cells = [
        (name, row.name, row.status, row.bytes, " > ".join(row.route), agreement(row))
        for name, rows in artifacts.items()
        for row in rows
    ]
    statuses = [row.status for rows in artifacts.values() for row in rows]
    headline = f"{statuses.count(Status.VERIFIED)} of {len(statuses)} targets verified"
    headline = f"{len(artifacts)} models, {headline}" if any(artifacts) else headline
    return _render(verdict, headline, Table.of(heads, cells), notes, folder)


def render_drift(
    verdict: Verdict, rows: Sequence[DriftRow], rules: Sequence[GateRow], notes: Sequence[str], folder: Path
) -> str:
    """Return a validation as HTML: a row for each artifact in each runtime."""
    kept = f"{sum(rule.verdict is Verdict.PASS for rule in rules)} of {len(rules)} checks passed"
    return _render(verdict, kept, agreement_table(rows), notes, folder)


def render_latencies(verdict: Verdict, rows: Sequence[LatencyRow], notes: Sequence[str], folder: Path) -> str:
    """Return a measurement as HTML: a row for each artifact, runtime and batch size."""
    headline = f"{sum(answered(row) for row in rows)} of {len(rows)} rows measured"
    return _render(
        verdict, headline, latency_table(rows).only(*SHORT), [*doubt_lines(rows, _MOST_DOUBTS), *notes], folder
    )


class NotebookRun(RunResult):
    """A run that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return render_run(self)


def in_notebook(result: RunResult) -> NotebookRun:
    """Return the same run, for notebooks."""
    return NotebookRun(**{field.name: getattr(result, field.name) for field in fields(result)})


def render_run(result: RunResult) -> str:
    """Return a run as HTML: a row for each artifact with status, size, worst drift, metric and latency."""
    heads = (
        Column("artifact", CellKind.ARTIFACT), *columns(CellKind.VERDICT, "status", "gate"),
        Column("size", CellKind.BYTES), Column("worst drift", CellKind.NUMBER),
        *columns(CellKind.TEXT, "metric", "latency (p50)"),
    )  # fmt: skip
    cells = []
    for line in view.lines(result):
        metric = line.metric.metric if line.metric else None
        speeds = "; ".join(
            f"{speed.runtime} {units.duration(row.p50_s)} at batch {batch}"
            for speed in line.speeds
            for batch, row in sorted(speed.by_batch.items())
        )
        size = line.row.bytes if line.row else None
        cells.append(
            (line.name, line.status, line.verdict, size, units.sqnr(line.worst), units.task_metric(metric), speeds)
        )
    notes = [*doubt_lines(result.latency, _MOST_DOUBTS), *result.doubts]
    return _render(result.verdict, view.headline(result), Table.of(heads, cells), notes, None)


def render_comparison(comparison: RunComparison, folder: Path | None) -> str:
    """Return a comparison of two runs as HTML: a row for each figure that changed."""
    changed, same = changed_and_same(comparison)
    notes = [*([f"{len(same)} figures are the same"] if same else []), *describe(comparison)]
    return _render(
        decide(comparison)[0], units.plain(comparison.headline), change_table(changed).without("reason"), notes, folder
    )


def _render(verdict: Verdict, headline: str, table: Table, notes: Sequence[str], folder: Path | None) -> str:
    """Return a result as HTML. `headline` says the verdict in words; `folder` is where all of it lies."""
    left = len(table.rows) - _MOST_ROWS
    more = [f"{left} further rows are not shown"] if left > 0 else []
    return render_part(
        "notebook.html.j2",
        verdict=notebook_chip(verdict),
        headline=headline,
        table=to_notebook(replace(table, rows=table.rows[:_MOST_ROWS])),
        notes=[*more, *notes, *([f"in {folder}"] if folder else [])],
    )
