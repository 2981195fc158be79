"""history.html: releases over time as one page that opens offline.

A line joins points of one machine and one way of measuring only: a time of another machine is no step of a trend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ... import __version__
from ...serving.runtimes.runtime_table import RUNTIMES
from ..drift.metrics.metric_kinds import SHARE
from ..result.compare.history_records import HistoryPoint, RunHistory
from . import history_text, units
from .offline_page import render_page
from .plot_parts import SYMBOLS, Plot, Trace, safe_label

_Value: TypeAlias = Callable[[HistoryPoint], float | None]
_DASHES = ("solid", "dot", "dash", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True)
class _Figure:
    """A figure that is drawn over time."""

    key: str
    title: str
    axis: str
    value: _Value
    text: Callable[[HistoryPoint], str]
    by_runtime: bool = True  # else every runtime has the same
    is_log: bool = False


def render_history_page(history: RunHistory, batch: int) -> str:
    """Return the page as text."""
    tables = {
        history_text.subject(*key): history_text.history_table(history, points).without("")
        for key, points in history.series().items()
    }
    return render_page(
        "history.html.j2",
        history_plots(history, batch),
        version=__version__,
        runs=history.runs,
        notes=history_text.notes(history, batch),
        tables=tables,
    )


def history_plots(history: RunHistory, batch: int) -> tuple[Plot, ...]:
    """Return a plot for each figure that there is something to show in."""
    plots = (_plot(figure, history) for figure in _figures(history, batch))
    return tuple(plot for plot in plots if plot is not None)


def _figures(history: RunHistory, batch: int) -> tuple[_Figure, ...]:
    names = sorted({point.metric_name for point in history.points if point.metric_name})
    unit = next((point.metric_unit for point in history.points if point.metric_name), None)
    scale = 100.0 if unit in (None, SHARE) else 1.0
    shown = "%" if unit in (None, SHARE) else units.plain(unit)
    return (
        _Figure(
            "drift", "Drift", "least SQNR in dB, more is better", _drift_db,
            lambda point: units.decibel(_drift_db(point)),
        ),
        _Figure(
            "metric", f"Metric: {units.plain(', '.join(names))}", f"score in {shown}" if shown else "score",
            lambda point: _scaled(point.metric, scale), history_text.score,
        ),
        _Figure(
            "latency", f"Latency at batch {batch}", "p50 in milliseconds, logarithmic",
            lambda point: _scaled(point.p50_s, 1e3), lambda point: units.duration(point.p50_s), is_log=True,
        ),
        _Figure(
            "ratio", f"Ratio to the reference of its own run, batch {batch}", "ratio, logarithmic; below 1 is faster",
            lambda point: point.ratio, lambda point: units.ratio(point.ratio), is_log=True,
        ),
        _Figure(
            "size", "Size", "KB, logarithmic", lambda point: _scaled(point.size_bytes, 1e-3),
            lambda point: units.size(point.size_bytes), by_runtime=False, is_log=True,
        ),
    )  # fmt: skip


def _drift_db(point: HistoryPoint) -> float | None:
    return point.drift if isinstance(point.drift, float) else None


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _plot(figure: _Figure, history: RunHistory) -> Plot | None:
    places = {run.id: at for at, run in enumerate(history.runs)}
    machines = {run.id: run.machine for run in history.runs}
    drawn: list[HistoryPoint] = []
    seen: set[tuple[str, str]] = set()
    for point in history.points:
        is_new = figure.by_runtime or (point.artifact, point.run) not in seen
        seen.add((point.artifact, point.run))
        value = figure.value(point)
        if is_new and value is not None and (value > 0 or not figure.is_log):
            drawn.append(point)
    if not drawn:
        return None
    traces = _traces(figure, drawn, places, machines)
    labels = [safe_label(run.id) for run in history.runs]
    layout: dict[str, Any] = {
        "height": 380,
        "margin": {"l": 10, "r": 20, "t": 10, "b": 10},
        "xaxis": {
            "tickvals": list(range(len(labels))), "ticktext": labels, "range": [-0.5, len(labels) - 0.5],
            "automargin": True, "zeroline": False, "showgrid": False,
        },
        "yaxis": {
            "title": {"text": figure.axis, "font": {"size": 12}}, "automargin": True, "zeroline": False,
            **({"type": "log"} if figure.is_log else {}),
        },
        "hovermode": "closest",
        "legend": {"font": {"size": 12}},
    }  # fmt: skip
    note = "Open marks: the machine or a library changed before that run. Lines join runs of one machine only."
    if figure.key == "drift":
        note += " Answers that are identical have no SQNR and are not drawn."
    return Plot(figure.key, figure.title, note, tuple(traces), layout, wide=True)


def _traces(
    figure: _Figure, points: Iterable[HistoryPoint], places: Mapping[str, int], machines: Mapping[str, str]
) -> list[Trace]:
    """Return a line for each artifact, runtime, machine and way of measuring."""
    groups: dict[tuple[str, str, str, str], list[HistoryPoint]] = {}
    for point in points:
        runtime = point.runtime or "" if figure.by_runtime else ""
        conditions = point.conditions if figure.by_runtime else ""
        groups.setdefault((point.artifact, runtime, machines[point.run], conditions), []).append(point)
    subjects = list(dict.fromkeys(key[:2] for key in groups))
    named: set[tuple[str, str]] = set()
    traces: list[Trace] = []
    for (artifact, runtime, machine, conditions), group in groups.items():
        subject = artifact, runtime
        symbol, dash = _symbol(runtime), _DASHES[subjects.index(subject) % len(_DASHES)]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": safe_label(history_text.subject(artifact, runtime or None)),
                "legendgroup": safe_label(f"{artifact} {runtime}"),
                "showlegend": subject not in named,
                "x": [places[point.run] for point in group],
                "y": [float(f"{figure.value(point) or 0.0:.6g}") for point in group],
                "text": [_hover(figure, point, machine, conditions) for point in group],
                "hovertemplate": "%{text}<extra></extra>",
                "line": {"dash": dash, "width": 2},
                "marker": {
                    "symbol": [f"{symbol}-open" if point.changed else symbol for point in group], "size": 10,
                    "line": {"width": 1.5},
                },
                "meta": {"format": artifact.partition(":")[0]},
            }
        )  # fmt: skip
        named.add(subject)
    return traces


def _symbol(runtime: str) -> str:
    names = list(RUNTIMES)
    return SYMBOLS[names.index(runtime) % len(SYMBOLS)] if runtime in names else SYMBOLS[0]


def _hover(figure: _Figure, point: HistoryPoint, machine: str, conditions: str) -> str:
    changed = f"<br>changed: {safe_label('; '.join(point.changed))}" if point.changed else ""
    where = ", ".join(part for part in (machine, conditions) if part)
    return (
        f"<b>{safe_label(history_text.subject(point.artifact, point.runtime))}</b>, {safe_label(point.run)}<br>"
        f"{safe_label(figure.text(point))} ({safe_label(where)}){changed}"
    )
