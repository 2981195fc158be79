"""Load rows as the cells of a table, for every place where a person reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..result.load_cases import LoadCase, LoadEngine
from ..result.schema import LoadRow
from . import units
from .tables.table import CellKind, Column, Table, Value, columns

_COLUMNS = (
    Column("artifact", CellKind.ARTIFACT), *columns(CellKind.PHRASE, "runtime", "load"),
    Column("batch", CellKind.NUMBER),
    *(
        Column(title, CellKind.NUMBER, is_optional=True)
        for title in ("p50", "p90", "p99", "p99.9", "bound", "samples/s", "harness", "lost")
    ),
    Column("kept", is_optional=True),
)  # fmt: skip
TOO_FEW = "too few"  # requests for that percentile
NO_ANSWER = "no answer"  # to so many that the percentile is one of them


def load_text(row: LoadRow) -> str:
    """Return what was asked, in the words of --load, and by whom where that was LoadGen."""
    case = LoadCase(row.scenario, row.concurrency, row.rate_per_s, row.bound_s)
    return case.text if row.engine is LoadEngine.TRANSLOAD else f"{case.text} ({row.engine})"


def load_table(rows: Sequence[LoadRow]) -> Table:
    """Return what was measured under each load. "bound" is early stopping's, of the scenario's percentile."""
    return Table.of(_COLUMNS, [_cells(row) for row in rows])


def _cells(row: LoadRow) -> tuple[Value, ...]:
    return (
        row.artifact,
        row.runtime,
        load_text(row),
        row.batch,
        _seconds(row, row.p50_s, 0.5),
        _seconds(row, row.p90_s, 0.9),
        _seconds(row, row.p99_s, 0.99),
        _seconds(row, row.p999_s, 0.999),
        _seconds(row, row.early_stopping_s, row.scenario.quantile or 0.99),
        units.NONE if row.throughput_per_s is None else f"{row.throughput_per_s:.0f}",
        units.duration(row.harness_p50_s),
        row.refused + row.lost if row.requests else NO_ANSWER,
        units.NONE if row.valid is None else "yes" if row.valid else "no",
    )


def load_doubts(rows: Sequence[LoadRow], most: int) -> list[str]:
    """Return the `most` first kinds of doubt, with the place that each is about, and how many kinds are left. Those
    that differ only in their numbers are one. A row's own order is that of weight; then come the most frequent."""
    groups: dict[str, list[tuple[int, str, str]]] = {}
    for row in rows:
        where = f"{units.plain(row.artifact)} in {units.plain(row.runtime)} under {load_text(row)}"
        for rank, doubt in enumerate(row.doubts):
            groups.setdefault(re.sub(r"\d[\d.,]*", "#", doubt), []).append((rank, where, units.plain(doubt)))
    ordered = sorted(groups.values(), key=lambda group: (min(rank for rank, _, _ in group), -len(group)))
    lines = [
        f"{where}: {doubt}" if len(group) == 1 else f"{len(group)} loads, as {where}: {doubt}"
        for group in ordered[:most]
        for _, where, doubt in [min(group)]
    ]
    rest = len(ordered) - most
    return lines + ([f"lighter doubts about loads, {rest} of them, are in the result"] if rest > 0 else [])


def _seconds(row: LoadRow, value: float | None, quantile: float) -> str:
    """Format a percentile. Too few requests give TOO_FEW, lost requests NO_ANSWER, and "offline" has no percentile."""
    if value is not None or not row.requests or row.scenario.quantile is None:
        return units.duration(value)
    return NO_ANSWER if row.refused + row.lost > (1 - quantile) * row.requests else TOO_FEW
