"""Latency against throughput as more requests are under way at a time, with the knee marked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from ..result.schema import RunResult
from . import units
from .plot_parts import Plot, Trace, decade_ticks, rounded, rows_layout, runtime_symbol, safe_label, symbol_key

CLOSED = "closed"  # the scenario in which so many clients each wait for their answer before they ask again


class ServedLoad(Protocol):
    """A served copy under load: what a plot needs of the row. Seconds of a request, samples a second."""

    @property
    def artifact(self) -> str:
        """The artifact's name."""

    @property
    def runtime(self) -> str:
        """The protocol that it is served by."""

    @property
    def device(self) -> str:
        """Where it really ran."""

    @property
    def threads(self) -> int:
        """Threads of the runtime behind the server."""

    @property
    def batch(self) -> int:
        """Samples of a request."""

    @property
    def scenario(self) -> str:
        """How requests are sent; the curve is drawn of "closed"."""

    @property
    def concurrency(self) -> int | None:
        """Requests under way at a time; None where they come by the clock."""

    @property
    def throughput_per_s(self) -> float | None:
        """Samples answered a second."""

    @property
    def p50_s(self) -> float | None:
        """Median of a request."""

    @property
    def p99_s(self) -> float | None:
        """The 99th percentile of a request."""


def load_plots(result: RunResult, loads: Sequence[ServedLoad], formats: Mapping[str, str]) -> Iterator[Plot]:
    """Yield a plot for each device, number of threads and batch size, with a curve for each copy and protocol."""
    groups: dict[tuple[str, int, int], dict[tuple[str, str], list[ServedLoad]]] = {}
    for row in loads:
        if row.scenario == CLOSED and row.concurrency and row.throughput_per_s and row.p50_s and row.p99_s:
            curves = groups.setdefault((row.device, row.threads, row.batch), {})
            curves.setdefault((row.artifact, row.runtime), []).append(row)
    for number, ((device, threads, batch), curves) in enumerate(groups.items()):
        traces: list[Trace] = []
        for (artifact, runtime), rows in curves.items():
            ordered = sorted(rows, key=lambda row: row.concurrency or 0)
            traces += _curve(ordered, formats.get(artifact, ""), runtime_symbol(runtime, result))
        layout = rows_layout(10, None, "samples per second, logarithmic", log=True)
        rows = [row for curve in curves.values() for row in curve]
        speeds, times = [row.throughput_per_s or 0.0 for row in rows], [(row.p99_s or 0.0) * 1e3 for row in rows]
        layout["xaxis"] |= decade_ticks(min(speeds), max(speeds))
        layout["yaxis"] |= {"type": "log", "title": {"text": "p99 in milliseconds, logarithmic", "font": {"size": 12}}}
        layout["yaxis"] |= decade_ticks(min(times), max(times))
        layout |= {"showlegend": True, "legend": {"orientation": "h", "y": -0.25}}
        plural = "" if threads == 1 else "s"
        yield Plot(
            f"load-{number}",
            f"Latency against throughput at batch {batch}: {safe_label(device)}, {threads} thread{plural}",
            "The number beside a mark is how many requests are under way at a time. Ring: the knee, where throughput "
            f"over latency is largest; beyond it requests mostly wait. {symbol_key(result, (at for _, at in curves))}",
            tuple(traces),
            layout,
            wide=True,
        )


def knee(rows: Sequence[ServedLoad]) -> int:
    """Return the place of the row with the largest power, throughput over median latency (Kleinrock 1979)."""
    powers = [(row.throughput_per_s or 0.0) / (row.p50_s or math.inf) for row in rows]
    return powers.index(max(powers))


def _curve(rows: Sequence[ServedLoad], form: str, symbol: str) -> list[Trace]:
    """Draw p99 against throughput in the order of concurrency, and a ring around the knee."""
    x = rounded(row.throughput_per_s or 0.0 for row in rows)
    y = rounded((row.p99_s or 0.0) * 1e3 for row in rows)
    name = safe_label(f"{rows[0].artifact} \u00b7 {rows[0].runtime}")
    hover = [
        f"<b>{name}</b>, {row.concurrency} at a time<br>{units.digits(row.throughput_per_s or 0.0)} samples/s, "
        f"p50 {units.duration(row.p50_s)}, p99 {units.duration(row.p99_s)}"
        for row in rows
    ]
    curve: Trace = {
        "type": "scatter", "mode": "lines+markers+text", "x": x, "y": y, "name": name,
        "text": [str(row.concurrency) for row in rows], "textposition": "top center", "customdata": hover,
        "hovertemplate": "%{customdata}<extra></extra>", "meta": {"format": form}, "line": {"width": 1.5},
        "marker": {"symbol": symbol, "size": 9, "line": {"width": 1}},
    }  # fmt: skip
    if len(rows) < 2:  # one mark has no knee
        return [curve]
    at = knee(rows)
    ring: Trace = {
        "type": "scatter", "mode": "markers", "x": [x[at]], "y": [y[at]], "showlegend": False, "hoverinfo": "skip",
        "meta": {"format": form}, "marker": {"symbol": "circle-open", "size": 22, "line": {"width": 2.5}},
    }  # fmt: skip
    return [curve, ring]
