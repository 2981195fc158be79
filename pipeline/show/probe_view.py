"""The probes of every artifact in every runtime, as the reports show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..result.gate import worst_verdict
from ..result.schema import ProbeResultRow, RunResult, Verdict, WorstSampleRow
from . import units


@dataclass(frozen=True)
class ProbeTable:
    """The probes of one artifact in one runtime."""

    artifact: str
    runtime: str
    format: str
    rows: tuple[ProbeResultRow, ...]
    worst: tuple[WorstSampleRow, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its probes."""
        return worst_verdict([row.verdict for row in self.rows])

    @property
    def summary(self) -> str:
        """How many probes passed, and the one that is nearest to its limit."""
        passed = sum(row.verdict is Verdict.PASS for row in self.rows)
        row = _tightest(self.rows)
        return f"{passed} of {len(self.rows)} probes pass{_nearest(row, question(row)) if row else ''}"


def probe_tables(result: RunResult) -> tuple[ProbeTable, ...]:
    """Return a table for each artifact in each runtime, those that did not pass first."""
    formats = {row.name: row.format for row in result.artifacts}
    groups: dict[tuple[str, str], list[ProbeResultRow]] = {}
    for row in result.probes:
        groups.setdefault((row.artifact, row.runtime), []).append(row)
    tables = [
        ProbeTable(
            *pair,
            formats.get(pair[0], "other"),
            tuple(rows),
            tuple(row for row in result.worst_samples if (row.artifact, row.runtime) == pair),
        )
        for pair, rows in groups.items()
    ]
    return tuple(sorted(tables, key=lambda table: table.verdict is Verdict.PASS))


def question(row: ProbeResultRow) -> str:
    """Say what was asked: "whole test set, batch 256", "samples, batch 1, height=64"."""
    sizes = ", ".join(f"{axis}={size}" for axis, size in row.sizes.items())
    return units.plain(", ".join(filter(None, (row.values, f"batch {row.batch}", sizes))))


def agreement(row: ProbeResultRow) -> str:
    """Format the signal to noise of a probe: "identical" if nothing differs, "no numbers" if nothing was compared."""
    if row.max_abs is None:
        return "no numbers"
    if row.non_finite and row.verdict is not Verdict.PASS:
        return "NaN or inf"
    return "identical" if row.sqnr_db is None and row.max_abs == 0 else units.decibel(row.sqnr_db)


def limit(row: ProbeResultRow) -> str:
    """Format the limit of a probe: decibels, or what the task's metric may lose; a dash where nothing differs."""
    if row.max_abs == 0 and not row.non_finite:
        return units.NONE
    loss = row.tolerance.metric_loss
    return units.decibel(row.tolerance.sqnr_db) if loss is None else f"metric loss {units.digits(loss)}"


def number(value: float | None) -> str:
    """Format an element or its error; "NaN or inf" where it is no number."""
    return "NaN or inf" if value is None else units.signed(f"{value:.9g}")


def why_limit(row: ProbeResultRow) -> str:
    """Say where the limit of a probe comes from; empty where nothing differs, or no numbers were compared."""
    if not row.max_abs:
        return ""
    return f"limit: {units.plain(row.derivation)}" if row.derivation else ""


def describe(result: RunResult) -> str:
    """Say in one sentence how many probes passed, and which is nearest to its limit; empty where none was recorded."""
    passed = sum(row.verdict is Verdict.PASS for row in result.probes)
    row = _tightest(result.probes)
    where = units.plain(f"{row.artifact} in {row.runtime}, {question(row)}") if row else ""
    nearest = _nearest(row, where) if row else ""
    return f"{passed} of {len(result.probes)} probes pass{nearest}" if result.probes else ""


def _nearest(row: ProbeResultRow, where: str) -> str:
    below = (row.sqnr_db or 0.0) < (row.tolerance.sqnr_db or 0.0)
    place = "furthest below its limit" if below else "nearest to its limit"
    return f"; {place}: {agreement(row)}, limit {limit(row)} ({where})"


def _tightest(rows: Sequence[ProbeResultRow]) -> ProbeResultRow | None:
    """Return the probe that lies nearest to its limit, or furthest below; None where numbers judged none."""
    margins = [
        (row.sqnr_db - row.tolerance.sqnr_db, at)
        for at, row in enumerate(rows)
        if row.sqnr_db is not None and row.tolerance.sqnr_db is not None
    ]
    return rows[min(margins)[1]] if margins else None
