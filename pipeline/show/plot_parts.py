"""What the plots of report.html share: a plot's record, rows one above the other, marks, symbols, and safe labels.

A trace says in `meta.format` whose colour it has; the page gives the colour, so that one format looks the same
everywhere, in the light and in the dark. A runtime has a symbol of its own: in print the colour may be gone.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...serving.runtimes.runtime_table import RUNTIMES
from ..result.schema import LatencyRow, RunResult
from . import units

Trace: TypeAlias = dict[str, Any]

_ROW_PX = 34
_ALL_STEPS_DECADES = 2.5
SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "x", "triangle-down", "hexagon", "pentagon", "star")


@dataclass(frozen=True)
class Plot:
    """One plot with its words. `note` says how to read it."""

    key: str  # the id of its element
    title: str
    note: str
    data: tuple[Trace, ...]
    layout: dict[str, Any]
    wide: bool = False  # as wide as the page


def symbol_key(result: RunResult, runtimes: Iterable[str]) -> str:
    """Return the sentence that says which runtime has which symbol."""
    words = (f"{name} {runtime_symbol(name, result).replace('-', ' ')}" for name in dict.fromkeys(runtimes))
    return f"Marks: {', '.join(words)}."


def runtime_symbol(runtime: str, result: RunResult) -> str:
    """One symbol for each runtime, the same in every plot of every run."""
    used = [row.runtime for row in result.latency] + [row.runtime for row in result.drift]
    names = list(dict.fromkeys([*RUNTIMES, *used]))
    return SYMBOLS[names.index(runtime) % len(SYMBOLS)]


def marks_trace(x: Iterable[float], y: Iterable[float], hover: list[str], form: str, symbols: list[str]) -> Trace:
    """Return marks in the colour of a format, each with its text for the pointer."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": rounded(x),
        "y": rounded(y),
        "text": hover,
        "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
        "meta": {"format": form},
        "marker": {"symbol": symbols, "size": 12, "line": {"width": 1.5}},
    }


def error_bar(low: float, value: float, high: float) -> dict[str, Any]:
    """Return the interval around a mark."""
    ends = {"array": [high - value], "arrayminus": [value - low]}
    return {"type": "data", "symmetric": False, **ends, "thickness": 2, "width": 5}


def limit_line(x: float, at: int) -> dict[str, Any]:
    """Return an upright line through the row `at`."""
    return {"type": "line", "x0": x, "x1": x, "y0": at - 0.4, "y1": at + 0.4, "line": {"width": 2}}


def rows_layout(rows: int, labels: list[str] | None, x_title: str, *, log: bool = False) -> dict[str, Any]:
    """Rows one above the other, 1 apart; the page adds the colours."""
    y: dict[str, Any] = {"zeroline": False, "automargin": True}
    x = {"title": {"text": x_title, "font": {"size": 12}}, **y, **({"type": "log"} if log else {})}
    if labels is not None:
        y |= {"tickvals": list(range(rows)), "ticktext": labels, "range": [-0.7, rows - 0.3], "showgrid": False}
    return {
        "height": 90 + _ROW_PX * rows,
        "margin": {"l": 10, "r": 20, "t": 10, "b": 50},
        "xaxis": x,
        "yaxis": y,
        "hovermode": "closest",
    }


def decade_ticks(low: float, high: float) -> dict[str, Any]:
    """1, 2 and 5 of each decade from below `low` to above `high`: plotly's own leave out the decade.
    Beyond 2.5 decades 1 alone, since the others would not stand apart."""
    steps = (1, 2, 5) if math.log10(high / low) < _ALL_STEPS_DECADES else (1,)
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    values = [digit * 10.0**decade for decade in decades for digit in steps]
    return {"tickvals": values, "ticktext": [f"{value:.6g}" for value in values]}


def rounded(values: Iterable[float]) -> list[float]:
    """Return the values with six digits, which are more than a screen shows."""
    return [float(f"{float(value):.6g}") for value in values]


def row_label(row: LatencyRow) -> str:
    """Return the label of an artifact in a runtime."""
    return safe_label(f"{row.artifact} \u00b7 {row.runtime}")


def safe_label(text: str) -> str:
    """Escape a label: Plotly reads labels as a little HTML, and a model's name must stay text."""
    return html.escape(units.plain(text))
