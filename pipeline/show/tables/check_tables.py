"""How artifacts agree with their model in rows: drift, what was asked of each, and the rules of the gate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ...result.gate import WORST_FIRST, answered, by_pair, worst_verdict
from ...result.schema import DriftRow, GateRow, ProbeResultRow, Verdict, WorstSampleRow
from .. import probe_view, units
from ..exercise_view import Exercise
from .table import Cell, CellKind, Column, Table, Value, columns

_PAIR = (Column("artifact", CellKind.ARTIFACT), Column("runtime", CellKind.PHRASE))


def agreement_table(drift: Sequence[DriftRow], *, every_batch: bool = False) -> Table:
    """Return comparisons as a table: a row for each artifact in each runtime, or for every batch.
    A row shows the batch that agrees least of those with the worst verdict; its metric, else that of any batch."""
    counts = columns(CellKind.NUMBER, "batch" if every_batch else "batches", "samples", "agreement")
    heads = (*_PAIR, *counts, Column("metric"), Column("verdict", CellKind.VERDICT))
    rows = [
        _agreement_row(rows, every_batch)
        for rows in ([[row] for row in drift] if every_batch else by_pair(drift).values())
    ]
    return Table.of(heads, rows)


def _agreement_row(rows: Sequence[DriftRow], every_batch: bool) -> tuple[Value, ...]:
    verdict = worst_verdict(row.verdict for row in rows)
    worst = min((row for row in rows if row.verdict is verdict), key=_agreement)
    metric = next((row.metric for row in (worst, *rows) if row.metric), None)
    counts = worst.batch if every_batch else len(rows), max(row.samples for row in rows)
    return worst.artifact, worst.runtime, *counts, units.sqnr(worst), units.task_metric(metric), verdict


def _agreement(row: DriftRow) -> float:
    if not answered(row) or row.mismatch is not None or (row.non_finite and row.lost is None):
        return -math.inf
    return math.inf if row.sqnr_db is None else row.sqnr_db


def drift_table(drift: Iterable[DriftRow]) -> Table:
    """Return every comparison on the test set with all its figures."""
    heads = (
        *_PAIR, *columns(CellKind.NUMBER, "batch", "samples"), *columns(CellKind.DIGITS, "max abs", "rms"),
        *columns(CellKind.NUMBER, "cosine", "SQNR", "non-finite", "metric"), Column("verdict", CellKind.VERDICT),
        Column("remarks", CellKind.NOTE, is_optional=True),
    )  # fmt: skip
    rows = [
        (
            row.artifact, row.runtime, row.batch, row.samples, row.max_abs, row.rms,
            None if row.cosine is None else f"{row.cosine:.6f}", units.sqnr(row), row.non_finite,
            Cell(units.score(row.metric), units.change(row.metric)) if row.metric else None, row.verdict, row.mismatch,
        )
        for row in drift
    ]  # fmt: skip
    return Table.of(heads, rows)


def exercise_table(exercises: Iterable[Exercise]) -> Table:
    """Return what the copies were asked, and what of the declared range was not."""
    heads = columns(CellKind.TEXT, "copies", "samples", "sizes", "values", "stress", "not asked")
    rows = [(", ".join(row.copies), row.samples, row.sizes, row.values, row.stress, row.not_asked) for row in exercises]
    return Table.of(heads, rows)


def probe_table(probes: Iterable[ProbeResultRow]) -> Table:
    """Return the probes of one artifact in one runtime, each with its limit and where that comes from."""
    heads = (
        Column("asked"), Column("batch", CellKind.NUMBER), Column("sizes", CellKind.PHRASE),
        *columns(CellKind.NUMBER, "samples", "SQNR", "limit"), Column("max abs", CellKind.DIGITS),
        Column("verdict", CellKind.VERDICT), Column("remarks", CellKind.NOTE),
    )  # fmt: skip
    rows = [
        (
            row.values, row.batch, ", ".join(f"{axis}={size}" for axis, size in row.sizes.items()), row.samples,
            probe_view.agreement(row), probe_view.limit(row), row.max_abs, row.verdict,
            Cell(row.reason or "", probe_view.why_limit(row)),
        )
        for row in probes
    ]  # fmt: skip
    return Table.of(heads, rows)


def sample_table(samples: Iterable[WorstSampleRow]) -> Table:
    """Return the samples of the test set that differ most, with their pictures where they have some."""
    heads = (
        Column("", is_optional=True), Column("sample", CellKind.NUMBER), Column("label", is_optional=True),
        Column("output"), *columns(CellKind.NUMBER, "difference", "reference", "candidate"),
    )  # fmt: skip
    rows = [
        (
            Cell(f"sample {row.sample}", picture=row.picture) if row.picture else None, row.sample, row.label,
            row.output, *map(probe_view.number, (row.error, row.reference, row.candidate)),
        )
        for row in samples
    ]  # fmt: skip
    return Table.of(heads, rows)


def gate_table(gate: Sequence[GateRow], *, passed: bool) -> Table:
    """Return the rules that passed, or those that did not, the worst first."""
    heads = (
        Column("verdict", CellKind.VERDICT), Column("rule", CellKind.PHRASE), Column("artifact", CellKind.ARTIFACT),
        Column("runtime", CellKind.PHRASE), Column("limit"), Column("got"),
    )  # fmt: skip
    rows = [
        (
            row.verdict, units.rule_words(row.rule), row.artifact, row.runtime,
            units.quantity(row.rule, row.limit, row.unit), units.quantity(row.rule, row.got, row.unit),
        )
        for row in sorted(gate, key=lambda row: WORST_FIRST.index(row.verdict))
        if (row.verdict is Verdict.PASS) is passed
    ]  # fmt: skip
    return Table.of(heads, rows)
