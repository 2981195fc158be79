"""The artifacts of a run in rows: which to release, where each lies, and the routes that were tried."""

from __future__ import annotations

from ...result.gate import answered, is_reference
from ...result.schema import ArtifactRow, DriftRow, LatencyRow, RouteStatus, RunResult, SignatureRow
from .. import units, view
from .table import Cell, CellKind, Column, Table, Value, columns


def decision_table(result: RunResult) -> Table:
    """Return what decides between the artifacts: a row for each runtime, the artifact's own facts in the first.
    Latencies are those of the main condition."""
    sizes = view.batches(result)
    heads = (
        Column("artifact", CellKind.ARTIFACT), *columns(CellKind.VERDICT, "gate", "status"),
        Column("size", CellKind.BYTES), *columns(CellKind.NUMBER, "worst SQNR", view.metric_name(result)),
        Column("runtime", CellKind.PHRASE), *columns(CellKind.NUMBER, *(f"p50, batch {size}" for size in sizes)),
    )  # fmt: skip
    rows: list[tuple[Value, ...]] = []
    for line in view.lines(result):
        task = _task(line.metric) if line.row else view.reference_score(result)
        size = line.row.bytes if line.row else None
        facts: tuple[Value, ...] = (line.name, line.verdict, line.status, size, units.sqnr(line.worst), task)
        rows += [
            (*facts, speed.runtime, *(_speed(speed.by_batch.get(size)) for size in sizes))
            for speed in line.speeds or (view.Speed(units.NONE, {}),)
        ]
    table = Table.of(heads, rows if result.artifacts else [])
    return table.grouped(*(head.title for head in heads[:6]))


def _task(row: DriftRow | None) -> Cell:
    if row is None or row.metric is None:
        return Cell(units.NONE)
    interval = f"{units.change(row.metric)} {units.change_interval(row.metric) if any(row.metric.ci95) else ''}".strip()
    return Cell(units.score(row.metric), ", ".join(filter(None, (interval, units.detectable(row.metric)))))


def _speed(row: LatencyRow | None) -> Cell:
    if row is None:
        return Cell(units.NONE)
    if not answered(row):
        return Cell("no answer")
    ratio = f"{units.ratio(row.ratio_to_reference)} {units.ratio_interval(row)}".strip()
    return Cell(units.duration(row.p50_s), "reference" if is_reference(row) else ratio)


def artifact_table(result: RunResult) -> Table:
    """Return where each artifact lies, its digest and its signature."""
    heads = (
        Column("artifact", CellKind.ARTIFACT), Column("path", CellKind.CODE), Column("sha256", CellKind.CODE),
        Column("made in", CellKind.NUMBER), Column("verified at batch"), Column("signature", CellKind.CODE),
    )  # fmt: skip
    rows = [
        (
            row.name, row.path or "not made", row.sha256, units.stretch(row.seconds),
            ", ".join(map(str, row.batches_verified)), _signature(row.signature) if row.signature else None,
        )
        for row in result.artifacts
    ]  # fmt: skip
    return Table.of(heads, rows)


def _signature(signature: SignatureRow) -> str:
    sides = (
        " ".join(f"{tensor.name}={tensor.dtype}[{','.join(map(str, tensor.shape))}]" for tensor in side)
        for side in (signature.inputs, signature.outputs)
    )
    return " \u2192 ".join(sides)


def route_table(result: RunResult) -> Table:
    """Return the routes that were looked at for each artifact, with their outcomes."""
    heads = (
        Column("artifact", CellKind.ARTIFACT), Column("outcome", CellKind.VERDICT), Column("route", CellKind.CODE),
        Column("reason"),
    )  # fmt: skip
    rows = [(artifact.name, *cells) for artifact in result.artifacts for cells in _routes(artifact)]
    return Table.of(heads, rows).grouped("artifact")


def _routes(artifact: ArtifactRow) -> list[tuple[Value, ...]]:
    """Return outcome, route and reason of the routes that were tried, then a sentence on those that were not needed."""
    tried = [row for row in artifact.tried if row.status is not RouteStatus.NOT_TRIED]
    spared = [row.reason for row in artifact.tried if row.status is RouteStatus.NOT_TRIED]
    rows: list[tuple[Value, ...]] = [(row.status, " \u2192 ".join(row.route), row.reason) for row in tried]
    if not tried:
        rows.append((artifact.status, "", "no route was tried" if spared else "no route leads there"))
    if spared:
        were = "further route was" if len(spared) == 1 else "further routes were"
        rows.append(("", "", f"{len(spared)} {were} not needed: {'; '.join(dict.fromkeys(spared))}"))
    return rows
