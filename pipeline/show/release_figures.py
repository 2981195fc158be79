"""The plots of a release: size against speed against drift with the best marked, and what a million samples cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..result.gate import answered
from ..result.schema import LatencyRow, RunResult, Status
from . import units, view
from .load_figures import ServedLoad
from .plot_parts import (
    Plot,
    Trace,
    decade_ticks,
    marks_trace,
    row_label,
    rows_layout,
    runtime_symbol,
    safe_label,
    symbol_key,
)
from .recommendation import cost_per_million


@dataclass(frozen=True)
class _Spot:
    """A copy in a runtime: what it costs in time, bytes and agreement."""

    row: LatencyRow
    status: Status
    form: str
    bytes: int
    sqnr_db: float  # the least; inf: identical

    @property
    def pair(self) -> tuple[str, str]:
        return self.row.artifact, self.row.runtime

    @property
    def ms(self) -> float:
        return (self.row.p50_s or 1e-9) * 1e3

    def beats(self, other: _Spot) -> bool:
        """Return whether this one is nowhere worse than the other, and somewhere better."""
        ours, theirs = ((spot.ms, spot.bytes, -spot.sqnr_db) for spot in (self, other))
        return ours != theirs and all(mine <= yours for mine, yours in zip(ours, theirs, strict=True))


@dataclass(frozen=True)
class _Cost:
    """What a million samples of a copy cost, and how they were asked."""

    label: str
    cost: float
    form: str
    how: str


def size_plot(result: RunResult) -> Plot | None:
    """Bytes against p50 at the smallest batch size, under the main condition, with the drift beside each name.
    The Pareto front is of the verified copies over all three."""
    batch = next(iter(view.batches(result)), 0)
    spots = list(_spots(result, batch))
    if not spots:
        return None
    front = pareto_front(spots)
    traces = [_spot_mark(spot, result, best=spot.pair in front) for spot in spots]
    places = {spot.pair: (spot.ms, spot.bytes / 1e3) for spot in spots}
    layout = rows_layout(11, None, f"p50 in milliseconds at batch {batch}, logarithmic", log=True)
    speeds, sizes = zip(*places.values(), strict=True)
    layout["xaxis"] |= decade_ticks(min(speeds), max(speeds))
    layout["yaxis"] |= {"type": "log", "title": {"text": "size in KB, logarithmic", "font": {"size": 12}}}
    layout["yaxis"] |= decade_ticks(min(sizes), max(sizes))
    remarks = {spot.pair: f" ({_agreement(spot)})" for spot in spots}
    layout["annotations"] = _names_beside(places, remarks, _PLOT_PX)
    # The page takes these where it is printed or narrow (report.js).
    layout["meta"] = {
        "print": _names_beside(places, remarks, _PRINT_PX),
        "narrow": _names_beside(places, dict.fromkeys(places, ""), _NARROW_PX),
    }
    note = (
        "Lower left is small and fast; in brackets the least agreement with the model. Filled: no verified copy is "
        f"smaller, faster and nearer to the model at once. {symbol_key(result, (spot.row.runtime for spot in spots))}"
    )
    return Plot("size", "Size against speed against drift", note, tuple(traces), layout, wide=True)


def pareto_front(spots: Sequence[_Spot]) -> set[tuple[str, str]]:
    """Return the artifacts and runtimes that no other verified copy beats in time, bytes and agreement together."""
    verified = [spot for spot in spots if spot.status is Status.VERIFIED]
    return {spot.pair for spot in verified if not any(other.beats(spot) for other in verified)}


def cost_plot(result: RunResult, loads: Sequence[ServedLoad]) -> Plot | None:
    """Cost of a million samples at the price of the run's recommendation, the cheapest on top."""
    price = result.recommendation.price_per_hour if result.recommendation else None
    if price is None:
        return None
    forms = {line.name: line.format for line in view.lines(result)}
    costs = [
        _Cost(row_label(row), cost, forms.get(row.artifact, ""), f"batch {row.batch}, one call after the other")
        for row in result.latency
        if answered(row) and (cost := cost_per_million(price, row.throughput_per_s))
    ]
    costs += [
        _Cost(
            f"{safe_label(load.artifact)} \u00b7 {safe_label(load.runtime)} under load",
            cost,
            forms.get(load.artifact, ""),
            f"batch {load.batch}, {load.concurrency} at a time",
        )
        for load in loads
        if load.concurrency and (cost := cost_per_million(price, load.throughput_per_s))
    ]
    costs.sort(key=lambda entry: -entry.cost)
    rows = list({entry.label: entry for entry in costs}.values())  # the last of each label is its cheapest
    rows.sort(key=lambda entry: -entry.cost)
    if not rows:
        return None
    traces = [
        marks_trace(
            [row.cost], [at], [f"<b>{row.label}</b><br>{units.digits(row.cost)}: {row.how}"], row.form, ["circle"]
        )
        for at, row in enumerate(rows)
    ]
    layout = rows_layout(len(rows), [row.label for row in rows], "cost per million samples, logarithmic", log=True)
    layout["xaxis"] |= decade_ticks(rows[-1].cost, rows[0].cost)
    text = {"showarrow": False, "xanchor": "left", "xshift": 10}
    layout["annotations"] = [
        {"x": math.log10(row.cost), "y": at, "text": units.digits(row.cost), **text} for at, row in enumerate(rows)
    ]
    note = (
        f"At {units.digits(price)} per hour of this machine, which one copy has to itself; each at the batch size "
        "that is cheapest."
    )
    return Plot("cost", "What a million samples cost", note, tuple(traces), layout)


def _spots(result: RunResult, batch: int) -> Iterator[_Spot]:
    for line in view.lines(result):
        for speed in line.speeds:
            row = speed.by_batch.get(batch)
            if row is None or not answered(row) or line.row is None or not line.row.bytes:
                continue
            compared = [
                drift for drift in result.drift
                if (drift.artifact, drift.runtime) == (line.name, speed.runtime) and answered(drift)
            ]  # fmt: skip
            noisy = [drift.sqnr_db for drift in compared if drift.sqnr_db is not None]
            identical = math.inf if compared else -math.inf  # what was not compared agrees with nothing
            yield _Spot(row, line.row.status, line.format, line.row.bytes, min(noisy, default=identical))


def _spot_mark(spot: _Spot, result: RunResult, *, best: bool) -> Trace:
    where = "on the front" if best else f"{spot.status}, not on the front"
    hover = (
        f"<b>{row_label(spot.row)}</b><br>{units.size(spot.bytes)}, p50 {units.duration(spot.row.p50_s)}, "
        f"{_agreement(spot)}<br>{where}"
    )
    symbol = runtime_symbol(spot.row.runtime, result)
    trace = marks_trace([spot.ms], [spot.bytes / 1e3], [hover], spot.form, [symbol if best else f"{symbol}-open"])
    trace["marker"] |= {"size": 14, "line": {"width": 1.5}}
    return trace


def _agreement(spot: _Spot) -> str:
    if math.isinf(spot.sqnr_db):
        return "identical" if spot.sqnr_db > 0 else "not compared"
    return units.decibel(spot.sqnr_db)


# Where a name may stand beside its mark: anchors, and the shift in pixels from the mark to the name's middle line.
_PLACES = (
    ("right", -12, 0),
    ("left", 12, 0),
    ("center", 0, 18),
    ("center", 0, -18),
    ("left", 12, 16),
    ("left", 12, -16),
    ("left", 12, 32),
    ("left", 12, -32),
    ("right", -12, 16),
    ("right", -12, -16),
    ("right", -12, 32),
    ("right", -12, -32),
    ("left", 12, -48),
    ("right", -12, -48),
    ("left", 12, -64),
    ("right", -12, -64),
)
_PLOT_PX, _PRINT_PX, _NARROW_PX = (1000.0, 340.0), (500.0, 230.0), (230.0, 300.0)  # a laptop, a page, a phone
_LETTER_PX, _LINE_PX = 7.5, 15.0
_Box: TypeAlias = tuple[float, float, float, float]  # left, right, bottom, top in pixels


def _names_beside(
    spots: Mapping[tuple[str, str], tuple[float, float]],
    remarks: Mapping[tuple[str, str], str],
    size_px: tuple[float, float],
) -> list[dict[str, Any]]:
    """Return each artifact's name once, with its remark, beside its fastest mark. One that finds no place in a plot of
    this size, where it covers no other name or mark, is left out."""
    at = {pair: (math.log10(x), math.log10(y)) for pair, (x, y) in spots.items()}
    fastest: dict[str, tuple[str, float, float]] = {}
    for pair, (x, y) in sorted(at.items(), key=lambda item: item[1]):
        fastest.setdefault(pair[0], (f"{pair[0]}{remarks[pair]}", x, y))
    x_px, y_px = (_scale([spot[axis] for spot in at.values()], size_px[axis]) for axis in (0, 1))
    left, right = (end(x for x, _ in at.values()) * x_px for end in (min, max))
    occupied: list[_Box] = [(x * x_px - 7, x * x_px + 7, y * y_px - 7, y * y_px + 7) for x, y in at.values()]
    labels = []
    for text, x, y in fastest.values():
        boxes = [(place, _box(x * x_px, y * y_px, len(text), place)) for place in _PLACES]
        free = [(place, box) for place, box in boxes if not any(_overlap(box, other) for other in occupied)]
        inside = [pair for pair in free if left - 90 < pair[1][0] and pair[1][1] < right + 90] or free
        if not inside:
            continue
        place, box = inside[0]
        occupied.append(box)
        side = dict(zip(("xanchor", "xshift", "yshift"), place, strict=True))
        labels.append({"x": x, "y": y, "yanchor": "middle", **side, "text": safe_label(text), "showarrow": False})
    return labels


def _scale(values: Sequence[float], pixels: float) -> float:
    return pixels / max(max(values) - min(values), 0.1)


def _box(x: float, y: float, letters: int, place: tuple[str, int, int]) -> _Box:
    anchor, x_shift, y_shift = place
    width = letters * _LETTER_PX
    left = x + x_shift - {"right": width, "left": 0.0, "center": width / 2}[anchor]
    return left, left + width, y + y_shift - _LINE_PX / 2, y + y_shift + _LINE_PX / 2


def _overlap(box: _Box, other: _Box) -> bool:
    return box[0] < other[1] and other[0] < box[1] and box[2] < other[3] and other[2] < box[3]
