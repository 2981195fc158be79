"""compare.html: a comparison of two runs as one page that opens offline, from the same cells as the text."""

from __future__ import annotations

from collections.abc import Sequence

from ... import __version__
from ..result.compare.change_records import SECONDS, Change, FigureChange, FigureKind, RunComparison
from ..result.compare.run_comparison import decide
from . import units
from .compare_text import change_cell, change_table, changed_and_same, describe, verdict_cell, where_cell
from .offline_page import render_page
from .plot_parts import Plot, Trace, error_bar, limit_line, marks_trace, rows_layout, safe_label

_STYLES = {Change.BETTER: "circle", Change.WORSE: "x", Change.SAME: "circle", Change.INCONCLUSIVE: "diamond-open"}


def render_compare_page(comparison: RunComparison) -> str:
    """Return the page as text."""
    changed, same = changed_and_same(comparison)
    return render_page(
        "compare.html.j2",
        ratio_plots(comparison),
        version=__version__,
        verdict=str(decide(comparison)[0]),
        before=units.plain(comparison.before),
        after=units.plain(comparison.after),
        headline=units.plain(comparison.headline),
        notes=describe(comparison),
        changed=change_table(changed),
        same=change_table(same),
    )


def ratio_plots(comparison: RunComparison) -> tuple[Plot, ...]:
    """Return the plot of all latency ratios with their intervals; none where no latency is compared."""
    rows = [row for row in comparison.figures if row.figure is FigureKind.LATENCY and row.change is not None]
    if not rows:
        return ()
    rows.reverse()
    labels = [safe_label(f"{row.artifact} · {row.runtime}, batch {row.batch}") for row in rows]
    lines = sorted({end for row in rows if row.limit is not None for end in (1 / (1 + row.limit), 1 + row.limit)})
    layout = rows_layout(len(rows), labels, _axis_title(rows), log=True)
    layout["shapes"] = [{**limit_line(x, 0), "y0": -0.7, "y1": len(rows) - 0.3, "line": {"width": 1}} for x in lines]
    note = (
        "After over before, with the interval that decides; below 1 is faster. The upright lines are the limits; "
        "cross: worse, open diamond: inconclusive."
    )
    return (Plot("ratios", "Latency", note, tuple(_mark(at, row) for at, row in enumerate(rows)), layout, wide=True),)


def _axis_title(rows: Sequence[FigureChange]) -> str:
    is_measured = all(row.unit == SECONDS for row in rows)
    return (
        "seconds after / before, logarithmic" if is_measured else "ratio to the reference, after / before, logarithmic"
    )


def _mark(at: int, row: FigureChange) -> Trace:
    change = row.change or 1.0
    low, high = row.verdict_interval or row.ci95 or (change, change)
    words = f"{verdict_cell(row)}, {change_cell(row)}"
    hover = f"<b>{safe_label(row.artifact)}</b>, {safe_label(where_cell(row))}<br>{safe_label(words)}"
    symbol = _STYLES.get(row.verdict, "circle")
    trace = marks_trace([change], [at], [hover], row.artifact.partition(":")[0], [symbol])
    return trace | {"error_x": error_bar(low, change, high)}
