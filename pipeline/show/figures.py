"""The plots of report.html, as plotly figures in plain dicts. The raw samples come in, a few hundred points go out.

A trace says in `meta.format` whose colour it has; the page gives the colour, so that one format looks the same
everywhere, in the light and in the dark. Needs no plotly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ...models.signature import Array
from ..drift.metrics.metric_kinds import SHARE
from ..result.gate import answered
from ..result.schema import DriftRow, ErrorRow, LatencyRow, MetricRow, RunResult, Verdict
from . import units, view
from .load_figures import ServedLoad, load_plots
from .plot_parts import (
    Plot,
    Trace,
    decade_ticks,
    error_bar,
    limit_line,
    marks_trace,
    rounded,
    row_label,
    rows_layout,
    runtime_symbol,
    safe_label,
    symbol_key,
)
from .release_figures import cost_plot, size_plot
from .time_figures import WarmUps, timeline_plot, warm_up_plot

Samples: TypeAlias = Mapping[tuple[str, str, int], Array]  # (artifact, runtime, batch) -> seconds, one-dimensional

_BINS = 60
_HALF = 0.42  # a row's half height, where rows are 1 apart


def plots(
    result: RunResult, samples: Samples, warm_ups: WarmUps | None = None, loads: Sequence[ServedLoad] = ()
) -> tuple[Plot, ...]:
    """Return every plot that there is something to show in, in reading order."""
    formats = {line.name: line.format for line in view.lines(result)}
    drawn = (
        *_latency_plots(result, samples, formats),
        *load_plots(result, loads, formats),
        size_plot(result),
        cost_plot(result, loads),
        warm_up_plot(result, warm_ups or {}, formats),
        _drift_plot(result, formats),
        _error_plot(result, formats),
        _metric_plot(result, formats),
        timeline_plot(result),
    )
    return tuple(plot for plot in drawn if plot is not None)


def _latency_plots(result: RunResult, samples: Samples, formats: Mapping[str, str]) -> Iterator[Plot | None]:
    """One plot for each condition and batch size: only rows that may be compared share an axis."""
    groups: dict[tuple[str, int, int], list[LatencyRow]] = {}
    for row in result.latency:
        if answered(row):
            groups.setdefault((row.device, row.threads, row.batch), []).append(row)
    for number, ((_, _, batch), rows) in enumerate(groups.items()):
        yield _latency_plot(f"latency-{number}", batch, rows, samples, formats)


def _latency_plot(
    key: str, batch: int, rows: Sequence[LatencyRow], samples: Samples, formats: Mapping[str, str]
) -> Plot | None:
    kept = [(row, _clean(samples.get((row.artifact, row.runtime, row.batch)))) for row in rows]
    timed = [(row, samples_s) for row, samples_s in kept if samples_s.size]
    if not timed:
        return None
    timed.sort(key=lambda pair: -float(np.median(pair[1])))  # the fastest on top
    traces: list[Trace] = []
    for at, (row, samples_s) in enumerate(timed):
        traces.extend(_violin(at, row, samples_s * 1e3, formats.get(row.artifact, "")))
    labels = [row_label(row) for row, _ in timed]
    layout = rows_layout(len(timed), labels, "milliseconds per call, logarithmic", log=True)
    low = min(float(np.quantile(samples_s, 0.002)) for _, samples_s in timed) * 1e3
    high = max(float(np.quantile(samples_s, 0.998)) for _, samples_s in timed) * 1e3
    layout["xaxis"] |= {"range": [float(np.log10(low)) - 0.05, float(np.log10(high)) + 0.05], **decade_ticks(low, high)}
    return Plot(
        key,
        f"Latency at batch {batch}: {view.condition(rows[0])}",
        "Each shape is the distribution of all samples; dot: p50, thick line: middle half, bars: p90 and p99.",
        tuple(traces),
        layout,
    )


def _clean(samples: Array | None) -> Array:
    if samples is None:
        return np.empty(0)
    flat = np.asarray(samples, dtype=np.float64).ravel()
    return flat[np.isfinite(flat) & (flat > 0)]


def _violin(at: int, row: LatencyRow, taken_ms: Array, form: str) -> list[Trace]:
    """Draw the shape of a distribution on a logarithmic axis, and its quantiles."""
    quartiles = np.quantile(taken_ms, [0.25, 0.5, 0.75, 0.9, 0.99])
    low, p50, high, p90, p99 = (float(value) for value in quartiles)
    x, y = _outline(taken_ms)
    hover = "<br>".join(
        (
            f"<b>{row_label(row)}</b>",
            f"p50 {p50:.4g} ms, p90 {p90:.4g} ms, p99 {p99:.4g} ms",
            f"{taken_ms.size} samples in {row.rounds} rounds",
            f"ratio {units.ratio(row.ratio_to_reference)} {units.ratio_interval(row)}",
        )
    )
    plain: Trace = {"hoverinfo": "skip", "showlegend": False, "meta": {"format": form}}
    shape = {
        **plain, "type": "scatter", "mode": "lines", "fill": "toself", "line": {"width": 1},
        "x": [*x, *x[::-1]], "y": [*(at + y), *(at - y[::-1])],
    }  # fmt: skip
    middle = {**plain, "type": "scatter", "mode": "lines", "x": [low, high], "y": [at, at], "line": {"width": 5}}
    marks = {
        "type": "scatter", "mode": "markers", "x": [p50, p90, p99], "y": [at] * 3, "showlegend": False,
        "meta": {"format": form}, "hovertemplate": f"{hover}<extra></extra>",
        "marker": {"symbol": ["circle", "line-ns", "line-ns"], "size": [10, 12, 18], "line": {"width": [1.5, 2, 2]}},
    }  # fmt: skip
    traces: list[Trace] = [shape, middle, marks]
    return [{**trace, "x": rounded(trace["x"]), "y": rounded(trace["y"])} for trace in traces]


def _outline(samples: Array) -> tuple[Array, Array]:
    """Positions, and half heights up to _HALF: a smoothed histogram of the logarithms, without the outer 0.2 %."""
    logs = np.log10(samples)
    low, high = np.quantile(logs, [0.002, 0.998])
    pad = max((high - low) * 0.08, 0.002)
    counts, edges = np.histogram(logs, bins=_BINS, range=(low - pad, high + pad))
    kernel = np.exp(-0.5 * (np.arange(-4, 5) / 1.5) ** 2)
    smooth = np.convolve(counts, kernel / kernel.sum(), mode="same")
    return 10 ** ((edges[:-1] + edges[1:]) / 2), smooth / max(float(smooth.max()), 1e-12) * _HALF


def _drift_plot(result: RunResult, formats: Mapping[str, str]) -> Plot | None:
    """SQNR of every drift row, with the limit that it was held against."""
    rows = [row for row in result.drift if answered(row) and (row.sqnr_db is not None or row.max_abs == 0)]
    if not rows:
        return None
    names = list(dict.fromkeys(row.artifact for row in rows))[::-1]
    loudest = max((row.sqnr_db for row in rows if row.sqnr_db is not None), default=100.0)
    right_edge = max(loudest * 1.06, 100.0)
    traces = [
        marks_trace(
            (row.sqnr_db if row.sqnr_db is not None else right_edge for row in group),
            (names.index(row.artifact) for row in group),
            [_drift_hover(row) for row in group],
            formats.get(group[0].artifact, ""),
            [runtime_symbol(row.runtime, result) for row in group],
        )
        for group in ([row for row in rows if row.artifact == name] for name in reversed(names))
    ]
    limits = {(row.artifact, row.tolerance.sqnr_db) for row in rows if row.tolerance.sqnr_db is not None}
    layout = rows_layout(len(names), [safe_label(name) for name in names], "SQNR in dB, more is better")
    layout["shapes"] = [limit_line(limit, names.index(name)) for name, limit in sorted(limits)]
    layout["xaxis"]["rangemode"] = "tozero"
    symbols = symbol_key(result, (row.runtime for row in rows))
    note = f"One mark for each batch size; the upright line is the limit. {symbols}"
    if any(row.sqnr_db is None for row in rows):
        note += " Marks at the right edge: identical to the last bit."
    return Plot("drift", "Drift: how loud the difference to the reference is", note, tuple(traces), layout)


def _error_plot(result: RunResult, formats: Mapping[str, str]) -> Plot | None:
    """Histograms of the differences, element by element, on a logarithmic axis."""
    rows = [row for row in reversed(result.errors) if row.bins]
    if not rows:
        return None
    several = len({row.output for row in rows}) > 1
    names = [safe_label(f"{units.where(row)}{f', {row.output}' if several else ''}") for row in rows]
    traces = [_error_bars(at, row, formats.get(row.artifact, "")) for at, row in enumerate(rows)]
    layout = rows_layout(len(rows), names, "|candidate \u2212 reference| of an element, logarithmic", log=True)
    layout["xaxis"] |= {"exponentformat": "power", "dtick": 2}
    sizes = {f"{units.plain(row.output)} {units.digits(row.rms)}" for row in rows}
    note = "Histograms over all elements of the test set, by powers of two; elements that are equal are not drawn."
    if len(sizes) == 1:
        note += f" For comparison, the typical size (rms) of the reference's {sizes.pop()}."
    return Plot("errors", "How large the differences are, element by element", note, tuple(traces), layout)


def _error_bars(at: int, row: ErrorRow, form: str) -> Trace:
    """Draw the counts of one output as an outline of bars on its line."""
    most = max(count for _, count in row.bins)
    x: list[float] = []
    y: list[float] = []
    for exponent, count in row.bins:
        height = at - _HALF + 2 * _HALF * count / most
        x += [2.0 ** (exponent - 1), 2.0 ** (exponent - 1), 2.0**exponent, 2.0**exponent]
        y += [at - _HALF, height, height, at - _HALF]
    least, largest = row.bins[0][0] - 1, row.bins[-1][0]
    hover = "<br>".join(
        (
            f"<b>{safe_label(units.where(row))}</b>, {safe_label(row.output)}",
            f"{row.elements:,} elements, {row.equal:,} of them equal, {row.non_finite:,} NaN or infinite on one side",
            f"differences from {2.0**least:.2g} to {2.0**largest:.2g}; rms of the reference {row.rms:.3g}",
        )
    )
    return {
        "type": "scatter", "mode": "lines", "fill": "toself", "line": {"width": 1}, "showlegend": False,
        "x": rounded(x), "y": rounded(y), "text": hover, "hoverinfo": "text", "hoveron": "fills",
        "meta": {"format": form},
    }  # fmt: skip


def _metric_plot(result: RunResult, formats: Mapping[str, str]) -> Plot | None:
    """Draw the paired difference of the task's metric with its interval, and how much may be lost."""
    measured = [(row, row.metric) for row in reversed(result.drift) if row.metric is not None]
    if not measured:
        return None
    rows = [row for row, _ in measured]
    unit = units.unit_of(measured[0][1])
    share = unit == SHARE
    scale = 100.0 if share else 1.0
    traces = [_metric_mark(at, *pair, scale, formats.get(pair[0].artifact, "")) for at, pair in enumerate(measured)]
    name = measured[0][1].name
    title = f"{name}, candidate \u2212 reference" + (", percentage points" if share else f", {unit}" if unit else "")
    layout = rows_layout(len(rows), [safe_label(f"{row.artifact} \u00b7 {row.runtime}") for row in rows], title)
    layout["shapes"] = [
        limit_line(row.tolerance.metric_loss * (-scale if metric.higher_is_better else scale), at)
        for at, (row, metric) in enumerate(measured)
        if row.tolerance.metric_loss is not None
    ]
    layout["xaxis"]["zeroline"] = True
    better = "more" if measured[0][1].higher_is_better else "less"
    note = f"Difference with its 95 % interval, {better} is better; the upright line is the most that may be lost."
    return Plot("metric", f"What it costs the task: {name}", note, tuple(traces), layout)


def _metric_mark(at: int, row: DriftRow, metric: MetricRow, scale: float, form: str) -> Trace:
    low, high = metric.ci95
    hover = f"<b>{safe_label(units.where(row))}</b><br>{units.score(metric)}, {units.change(metric)}"
    trace = marks_trace([metric.delta * scale], [at], [f"{hover} {units.change_interval(metric)}"], form, ["circle"])
    return trace | {"error_x": error_bar(low * scale, metric.delta * scale, high * scale)}


def _drift_hover(row: DriftRow) -> str:
    verdict = "" if row.verdict is Verdict.PASS else f", {row.verdict}"
    loud = f"{units.sqnr(row)}, max difference {row.max_abs:.3g}{verdict}"
    return f"<b>{safe_label(units.where(row))}</b>, batch {row.batch}<br>{loud}"
