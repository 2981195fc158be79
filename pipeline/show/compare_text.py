"""A comparison of two runs as text: cells for all forms, a table for the terminal, and compare.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from ..drift.metrics.metric_text import format_change, format_interval, format_value
from ..result.compare.change_records import SECONDS, Change, FigureChange, FigureKind, RunComparison
from ..result.compare.run_comparison import decide
from . import units
from .markdown_text import escaped
from .tables.printers import to_markdown, to_sections, to_text
from .tables.table import CellKind, Column, Table, columns

_ORDER = (Change.WORSE, Change.INCONCLUSIVE, Change.NOT_COMPARED, Change.BETTER, Change.SAME)
SEPARATE_NOTE = (
    "Latencies are ratios to each run's own reference: the two runs were measured at different times, so their "
    "milliseconds are not comparable. Intervals are at 95 %."
)


SIDE_BY_SIDE_NOTE = (
    "Latencies and memory were measured side by side in this run, in the same rounds: whichever machines the two runs "
    "were done on, these are comparable. Intervals of latencies are at 99.875 %, for several looks; others at 95 %."
)
_COLUMNS = (
    Column("artifact", CellKind.ARTIFACT), Column("figure"), Column("where", CellKind.PHRASE),
    *columns(CellKind.NUMBER, "before", "after"), Column("verdict", CellKind.VERDICT),
    Column("change", CellKind.NUMBER), Column("reason", CellKind.NOTE),
)  # fmt: skip


def change_table(rows: Sequence[FigureChange]) -> Table:
    """Return a row for each figure of two runs, with the reason of its verdict."""
    cells = [
        (
            row.artifact, row.figure, where_cell(row), value_cell(row, row.before), value_cell(row, row.after),
            verdict_cell(row), change_cell(row), row.reason,
        )
        for row in rows
    ]  # fmt: skip
    return Table.of(_COLUMNS, cells)


def changed_and_same(comparison: RunComparison) -> tuple[list[FigureChange], list[FigureChange]]:
    """Return the figures that are not the same, the worst first, and those that are. A metric that has changed within
    its limit is told, too."""
    rows = sorted(comparison.figures, key=lambda row: _ORDER.index(row.verdict))
    same = [row for row in rows if row.verdict is Change.SAME and not _is_told(row)]
    return [row for row in rows if row.verdict is not Change.SAME or _is_told(row)], same


def _is_told(row: FigureChange) -> bool:
    return row.figure is FigureKind.METRIC and bool(row.change)


def describe(comparison: RunComparison) -> list[str]:
    """Return sentences on how latencies were compared, and on what is new, gone or left out."""
    notes = (method_note(comparison), *comparison.notes, *present_lines(comparison))
    return [units.plain(note) for note in notes if note]


def method_note(comparison: RunComparison) -> str:
    """Say how latencies were compared; empty where there are none."""
    measured = {row.unit == SECONDS for row in comparison.figures if row.figure is FigureKind.LATENCY}
    if measured == {True, False}:
        return f"{SIDE_BY_SIDE_NOTE} Of the artifacts that were not, {SEPARATE_NOTE[0].lower()}{SEPARATE_NOTE[1:]}"
    return {True: SIDE_BY_SIDE_NOTE, False: SEPARATE_NOTE}[measured.pop()] if measured else ""


def where_cell(row: FigureChange) -> str:
    """Name the runtime and batch of a row: "onnxruntime, 8"; empty for the artifact itself."""
    return units.plain(", ".join(str(part) for part in (row.runtime, row.batch) if part is not None))


def verdict_cell(row: FigureChange) -> str:
    """Name the verdict: a metric that has changed within its limit is "no worse"."""
    return "no worse" if row.verdict is Change.SAME and _is_told(row) else str(row.verdict)


def value_cell(row: FigureChange, value: float | str | None) -> str:
    """Format a figure of one run."""
    if value is None or isinstance(value, str):
        return units.NONE if value is None else units.plain(value)
    if row.figure is FigureKind.METRIC:
        return units.signed(format_value(value, units.plain(row.unit or "")))
    if row.figure is FigureKind.METRIC_DRIFT:
        return units.signed(format_change(value, units.plain(row.unit or "")))
    if row.figure is FigureKind.DRIFT:
        return units.decibel(value)
    if row.figure is FigureKind.LATENCY:
        return units.duration(value) if row.unit == SECONDS else units.ratio(value)
    return units.size(value)


def change_cell(row: FigureChange) -> str:
    """Format a change with the interval that decides it: "+5.0 % [-2, +12]", "-3.2 dB", "-0.28 pp [-0.55, +0.01]"."""
    if row.change is None:
        return ""
    if row.figure in (FigureKind.METRIC, FigureKind.METRIC_DRIFT):
        unit = units.plain(row.unit or "")
        is_open = row.verdict is not Change.SAME or _is_told(row)  # else the table does not fit 80 columns
        interval = f" {format_interval(*row.ci95, unit)}" if row.ci95 and is_open else ""
        return units.signed(f"{format_change(row.change, unit)}{interval}")
    if row.figure is FigureKind.DRIFT:
        return units.signed(f"{row.change:+.1f} dB")
    ends = row.verdict_interval or row.ci95
    low_high = f" [{', '.join(f'{end * 100 - 100:+.0f}' for end in ends)}]" if ends else ""
    return units.signed(f"{row.change * 100 - 100:+.1f} %{low_high}")


def terminal_lines(comparison: RunComparison, width: int = 80) -> list[str]:
    """Lines for a terminal of `width` columns: a table for each artifact, the reasons, the verdict last. The table
    fits 80 columns."""
    names = dict.fromkeys(row.artifact for row in comparison.figures)
    rows = [row for name in names for row in comparison.figures if row.artifact == name]
    lines = to_sections(change_table(rows).without("reason"), gap=" ", indent="  ")
    notes = [*describe(comparison), *reasons(comparison)]
    verdict = str(decide(comparison)[0]).upper()
    wrapped = [line for note in notes for line in wrap(note, max(width, 40), subsequent_indent="  ")]
    return [*lines, "", *wrapped, "", f"{verdict}  {units.plain(comparison.headline)}"]


def present_lines(comparison: RunComparison) -> list[str]:
    """Say what is new and what is gone."""
    parts = (("new", comparison.new), ("gone", comparison.gone))
    return [units.plain(f"{word}: {', '.join(names)}") for word, names in parts if names]


def reasons(comparison: RunComparison) -> list[str]:
    """Say why, for all that is not the same: a line for each reason, the worst first, with the rows that it is of."""
    groups: dict[tuple[str, FigureKind, str], list[str]] = {}
    for row in sorted(comparison.figures, key=lambda row: _ORDER.index(row.verdict)):
        if row.verdict is not Change.SAME or _is_told(row):
            subject = row.artifact + (f" in {row.runtime}" if row.runtime else "")
            subjects = groups.setdefault((verdict_cell(row), row.figure, row.reason), [])
            subjects += [] if subject in subjects else [subject]
    return [
        units.plain(f"{verdict}: {figure} of {', '.join(subjects)}: {reason}")
        for (verdict, figure, reason), subjects in groups.items()
    ]


def baseline_lines(comparison: RunComparison, width: int = 80) -> list[str]:
    """Return the lines on a run's baseline for a terminal of `width` columns: what is not the same, and why."""
    changed, same = changed_and_same(comparison)
    lines = to_text(change_table(changed).without("reason"), "  ", " ") or [f"  {len(same)} figures are the same"]
    notes = [*(units.plain(note) for note in comparison.notes), *reasons(comparison)]
    wrapped = [
        line for note in notes for line in wrap(note, max(width, 40), initial_indent="  ", subsequent_indent="    ")
    ]
    return [f"against the baseline {units.plain(comparison.before)}:", *lines, *wrapped]


def render_compare_markdown(comparison: RunComparison) -> str:
    """Return compare.md: the verdict, what changed, and the rest folded away."""
    head = f"## transload compare: {decide(comparison)[0]}"
    return "\n\n".join([head, f"{escaped(comparison.headline)}.", *_markdown_parts(comparison)]) + "\n"


def render_baseline_markdown(comparison: RunComparison | None) -> str:
    """Return the section of report.md on the baseline; empty where there is none."""
    if comparison is None:
        return ""
    head = f"### Against the baseline {escaped(comparison.before)}"
    return "\n\n".join([head, *_markdown_parts(comparison)])


def _markdown_parts(comparison: RunComparison) -> list[str]:
    """Return the table of what changed, how latencies were compared, the reasons, and the rest folded away."""
    changed, same = changed_and_same(comparison)
    folded = f"<details><summary>{len(same)} figures are the same</summary>\n\n{_markdown_table(same)}\n\n</details>"
    parts = [
        _markdown_table(changed) if changed else "",
        *(f"<sub>{escaped(note)}</sub>" for note in describe(comparison)),
        "\n".join(f"- {escaped(line)}" for line in reasons(comparison)),
        folded if same else "",
    ]
    return [part for part in parts if part]


def _markdown_table(rows: Sequence[FigureChange]) -> str:
    return to_markdown(change_table(rows).without("reason"))


@dataclass(frozen=True)
class BaselineView:
    """What report.html shows of a baseline."""

    headline: str
    notes: list[str]
    changed: Table
    same: Table


def view_baseline(comparison: RunComparison | None) -> BaselineView | None:
    """Return what the page shows; None where there is no baseline."""
    if comparison is None:
        return None
    changed, same = map(change_table, changed_and_same(comparison))
    return BaselineView(units.plain(comparison.headline), describe(comparison), changed, same)
