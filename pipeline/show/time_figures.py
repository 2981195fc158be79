"""The plots of time: how a copy gets warm, and when the stages and steps of the run went on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..measure.bench.rounds import WarmUp
from ..result.gate import answered
from ..result.schema import LatencyRow, RunResult, TimelineRow
from . import units, view
from .plot_parts import Plot, Trace, decade_ticks, rounded, row_label, rows_layout, safe_label

# (artifact, runtime, batch) -> the warm-up of each process
WarmUps: TypeAlias = Mapping[tuple[str, str, int], Sequence[WarmUp]]

_HALF = 0.42  # a row's half height, where rows are 1 apart
_NAMED_SHARE = 0.12  # of the run: a step that takes as long has its name in its bar
_LANES = 12  # of steps side by side under one stage; more share the last


def warm_up_plot(result: RunResult, warm_ups: WarmUps, formats: Mapping[str, str]) -> Plot | None:
    """Draw the calls of the first process of each row at the smallest batch, over its p50 in the rounds."""
    batch = next(iter(view.batches(result)), 0)
    drawn = [
        (row, warm_ups[row.artifact, row.runtime, row.batch][0])
        for row in result.latency
        if row.batch == batch and answered(row) and row.p50_s
        and view.condition(row) == view.main_condition(result)
        and any(warm_ups.get((row.artifact, row.runtime, row.batch), ()))
    ]  # fmt: skip
    drawn = [(row, windows) for row, windows in drawn if windows]
    if not drawn:
        return None
    drawn.sort(key=lambda pair: -pair[1][0][1])  # the shortest first call on top
    ratios = [call_s / (row.p50_s or 1e-12) for row, windows in drawn for _, call_s in windows]
    scale = _Scale(math.log10(min(*ratios, 1.0)), math.log10(max(*ratios, 2.0)))
    traces = [trace for at, (row, windows) in enumerate(drawn) for trace in _warm_up_curve(at, row, windows, scale)]
    for trace in traces:
        trace["meta"] = {"format": formats.get(trace.pop("artifact"), "")}
    labels = [row_label(row) for row, _ in drawn]
    layout = rows_layout(len(drawn), labels, "seconds from the first call, logarithmic", log=True)
    ends = [end_s for _, windows in drawn for end_s, _ in windows]
    layout["xaxis"] |= decade_ticks(min(ends), max(ends))
    beside = {"showarrow": False, "xanchor": "left", "xshift": 3, "yanchor": "bottom", "yshift": 3}
    layout["annotations"] = [
        {
            "x": math.log10(windows[0][0]),
            "y": at + scale.height(windows[0][1] / (row.p50_s or 1e-12)),
            "text": units.duration(windows[0][1]),
            **beside,
        }
        for at, (row, windows) in enumerate(drawn)
    ]
    note = (
        "First mark, with its time: the first call. Then the median call of each window of the warm-up; dotted: the "
        f"p50 of the rounds that follow. Heights are logarithmic, up to {units.ratio(10**scale.high)} of that p50. "
        "Of the first process of each."
    )
    return Plot("warm-up", f"Warm-up at batch {batch}", note, tuple(traces), layout)


@dataclass(frozen=True)
class _Scale:
    """Logarithms of the least and the largest ratio, which a row's height spans."""

    low: float
    high: float

    def height(self, ratio: float) -> float:
        """Return the height above a row's middle."""
        share = (math.log10(max(ratio, 1e-12)) - self.low) / max(self.high - self.low, 1e-9)
        return 2 * _HALF * share - _HALF


def _warm_up_curve(at: int, row: LatencyRow, windows: WarmUp, scale: _Scale) -> list[Trace]:
    p50_s = row.p50_s or 1e-12
    hover = [
        f"<b>{row_label(row)}</b><br>{'first call' if number == 0 else 'window'} until {end_s:.3g} s: "
        f"{units.duration(call_s)}, {units.ratio(call_s / p50_s)} of p50"
        for number, (end_s, call_s) in enumerate(windows)
    ]
    x = rounded(end_s for end_s, _ in windows)
    base = at + scale.height(1.0)
    plain: Trace = {"type": "scatter", "showlegend": False, "artifact": row.artifact}
    level = {
        **plain, "mode": "lines", "x": [x[0], x[-1]], "y": rounded([base, base]), "hoverinfo": "skip",
        "line": {"width": 1, "dash": "dot"},
    }  # fmt: skip
    curve = {
        **plain, "mode": "lines+markers", "x": x,
        "y": rounded(at + scale.height(call_s / p50_s) for _, call_s in windows),
        "customdata": hover, "hovertemplate": "%{customdata}<extra></extra>", "line": {"width": 1.5},
        "marker": {"symbol": "circle", "size": [9, *[5] * (len(windows) - 1)], "line": {"width": 0.5}},
    }  # fmt: skip
    return [level, curve]


def timeline_plot(result: RunResult) -> Plot | None:
    """Draw each stage as a bar, below it its steps, those that went on side by side in lanes of their own."""
    if not result.timeline:
        return None
    rows: list[tuple[str, list[TimelineRow]]] = []
    for stage in [row for row in result.timeline if row.is_stage]:
        rows.append((stage.name, [stage]))
        inside = [row for row in result.timeline if row.stage == stage.name and not row.is_stage]
        rows += [("", lane) for lane in _lanes(inside)]
    rows += [("", lane) for lane in _lanes([row for row in result.timeline if not row.stage])]
    formats = {artifact.name.replace(":", "-"): artifact.format for artifact in result.artifacts}
    traces = [_bar(at, row, formats, result.seconds) for at, (_, lane) in enumerate(rows[::-1]) for row in lane]
    doubted = [(at, row) for at, (_, lane) in enumerate(rows[::-1]) for row in lane if row.doubts]
    if doubted:
        traces.append(_doubt_marks(doubted))
    layout = rows_layout(len(rows), [safe_label(name) for name, _ in rows[::-1]], "seconds since the run began")
    layout["height"] = 90 + 26 * len(rows)
    layout |= {"barmode": "overlay", "bargap": 0.25}
    note = "Grey: stages; below each its steps that were really done, others were found in the store."
    if doubted:
        note += " Triangles: a step that failed, or a doubt about the machine meanwhile."
    return Plot("timeline", "The run over time", note, tuple(traces), layout, wide=True)


def _lanes(rows: Sequence[TimelineRow]) -> list[list[TimelineRow]]:
    """Return the rows in lanes in which none begins before the one before it has ended."""
    lanes: list[list[TimelineRow]] = []
    for row in sorted(rows, key=lambda row: row.start_s):
        free = next((lane for lane in lanes if lane[-1].start_s + lane[-1].seconds <= row.start_s + 1e-3), None)
        if free is None and len(lanes) < _LANES:
            lanes.append([row])
        else:
            (lanes[-1] if free is None else free).append(row)
    return lanes


def _bar(at: int, row: TimelineRow, formats: Mapping[str, str], total_s: float) -> Trace:
    form = (
        "other" if row.is_stage else next((formats[part] for part in row.name.split(".") if part in formats), "other")
    )
    name = safe_label(row.name)
    doubts = "".join(f"<br>{safe_label(doubt)}" for doubt in row.doubts)
    text = name if not row.is_stage and row.seconds > _NAMED_SHARE * max(total_s, 1e-9) else ""
    return {
        "type": "bar", "orientation": "h", "x": [max(row.seconds, 1e-3)], "y": [at], "base": [row.start_s],
        "text": [text or (units.stretch(row.seconds) if row.is_stage else "")], "textposition": "auto",
        "insidetextanchor": "start", "constraintext": "none", "cliponaxis": False,
        "hovertemplate": f"<b>{name}</b><br>{units.stretch(row.seconds)} from second {row.start_s:.1f}{doubts}"
        "<extra></extra>",
        "showlegend": False, "meta": {"format": form}, "marker": {"line": {"width": 0.5}},
    }  # fmt: skip


def _doubt_marks(doubted: Sequence[tuple[int, TimelineRow]]) -> Trace:
    texts = [f"<b>{safe_label(row.name)}</b><br>{safe_label('; '.join(row.doubts))}" for _, row in doubted]
    return {
        "type": "scatter", "mode": "markers", "x": rounded(row.start_s for _, row in doubted),
        "y": [at + 0.4 for at, _ in doubted], "text": texts, "hovertemplate": "%{text}<extra></extra>",
        "showlegend": False,
        "meta": {"format": "doubt"}, "marker": {"symbol": "triangle-up", "size": 10, "line": {"width": 1}},
    }  # fmt: skip
