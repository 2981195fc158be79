"""The table that answers "which runtime do we serve?": copies behind one protocol, held against one reference."""

from __future__ import annotations

from ...models.formats import Format
from ...serving.runtimes.runtime_table import SERVED_ALIKE, runtimes_for
from ..result.gate import answered
from ..result.schema import LatencyRow, RunResult
from . import units, view
from .tables.table import CellKind, Table, columns

NOTE = (
    f"ratios are to the model behind {SERVED_ALIKE} (below 1 is faster); those of other protocols are of the medians, "
    "without an interval"
)


def served_table(result: RunResult) -> Table:
    """Return the served copies as a table; without rows where fewer than two stand behind one protocol.
    Each ratio is to the model behind that protocol: as measured, and of other protocols' rows that of the medians."""
    main = view.main_condition(result)
    served = [row for row in result.latency if row.server and answered(row) and view.condition(row) == main]
    sizes = view.batches(result)
    alike = {row.artifact for row in served if row.runtime == SERVED_ALIKE}
    by_pair: dict[tuple[str, str], dict[int, LatencyRow]] = {}
    for row in sorted(served, key=lambda row: row.runtime != SERVED_ALIKE):
        if row.artifact in alike and len(alike) > 1:
            by_pair.setdefault((row.artifact, row.runtime), {})[row.batch] = row
    formats = {row.name: row.format for row in result.artifacts}
    reference = _reference(served)
    heads = (
        *columns(CellKind.PHRASE, "served", "by", "protocol"),
        *columns(CellKind.NUMBER, *(f"p50, batch {batch}" for batch in sizes)),
    )
    rows = [
        (
            artifact, _runtime_of(formats.get(artifact)), runtime,
            *(_time(by_batch.get(batch), reference.get(batch)) for batch in sizes),
        )
        for (artifact, runtime), by_batch in by_pair.items()
    ]  # fmt: skip
    return Table.of(heads, rows, NOTE)


def _reference(served: list[LatencyRow]) -> dict[int, LatencyRow]:
    """Return what the first copy behind the protocol is held against, by batch."""
    names = [row.reference for row in served if row.runtime == SERVED_ALIKE and row.reference]
    return {row.batch: row for row in served if names and f"{row.artifact} in {row.runtime}" == names[0]}


def _runtime_of(form: str | None) -> str:
    """Return the runtime that our server opens a format in; PyTorch of the model itself."""
    runtimes = runtimes_for(Format(form)) if form else ()
    return next((runtime.name for runtime in runtimes if not runtime.served), "torch")


def _time(row: LatencyRow | None, reference: LatencyRow | None) -> str:
    if row is None:
        return units.NONE
    if row is reference:
        return f"{units.duration(row.p50_s)} ref"
    ratio = row.ratio_to_reference if row.runtime == SERVED_ALIKE else None
    if ratio is None and reference is not None and row.p50_s and reference.p50_s:
        ratio = row.p50_s / reference.p50_s
    return f"{units.duration(row.p50_s)} {units.ratio(ratio)}"
