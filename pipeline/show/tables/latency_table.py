"""Latencies in rows, as every medium shows them; each takes the columns that it has room for."""

from __future__ import annotations

from collections.abc import Sequence

from ....serving.runtimes.tuning_space import settings_text
from ...result.gate import answered
from ...result.schema import LatencyRow
from .. import units
from ..recommendation import cost_per_million
from .table import Cell, CellKind, Column, Table, Value, columns

SHORT = (
    "artifact",
    "runtime",
    "device",
    "batch",
    "p50",
    "p99",
    "samples/s",
    "ratio [99.875 %]",
    "compared",
    "settings",
)
_COLUMNS = (
    Column("artifact", CellKind.ARTIFACT), Column("runtime", CellKind.PHRASE),
    Column("server", CellKind.PHRASE, is_optional=True), Column("device", CellKind.PHRASE),
    *columns(CellKind.NUMBER, "threads", "batch"), *columns(CellKind.SECONDS, "p50", "p90", "p99"),
    Column("samples/s", CellKind.NUMBER), Column("per million", CellKind.DIGITS, is_optional=True),
    Column("ratio [99.875 %]", CellKind.NUMBER), Column("compared"),
    Column("memory", CellKind.BYTES, is_optional=True), Column("energy", CellKind.JOULES, is_optional=True),
    Column("calls in rounds", CellKind.NUMBER), Column("settings", is_optional=True),
)  # fmt: skip


def latency_table(rows: Sequence[LatencyRow], price_per_hour: float | None = None, *, searched: bool = False) -> Table:
    """Return a row for each artifact, runtime and batch size. With a price: what a million samples cost.
    Settings stand in it where some runtime has them, or where they were searched for."""
    tuned = searched or any(row.settings for row in rows)
    return Table.of(_COLUMNS, [(*_cells(row, price_per_hour), _settings(row) if tuned else None) for row in rows])


def _cells(row: LatencyRow, price_per_hour: float | None) -> tuple[Value, ...]:
    rate = row.throughput_per_s
    return (
        row.artifact, row.runtime, row.server, row.device, row.threads, row.batch, row.p50_s, row.p90_s,
        row.p99_s, None if rate is None else f"{rate:.0f}", cost_per_million(price_per_hour, rate),
        Cell(units.ratio(row.ratio_to_reference), units.deciding_interval(row)),
        units.comparison(row) if answered(row) else "no answer", row.peak_rss_bytes, row.energy_j,
        f"{row.samples} in {row.rounds}",
    )  # fmt: skip


def _settings(row: LatencyRow) -> str:
    """Return the settings of a row, with the ratio of a call's time to that with the default settings."""
    text = settings_text(row.settings)
    if row.ratio_to_default is None:
        return text
    low, high = row.ratio_to_default_ci95 or (row.ratio_to_default, row.ratio_to_default)
    return f"{text} ({row.ratio_to_default:.2f} [{low:.2f}, {high:.2f}] of default)"
