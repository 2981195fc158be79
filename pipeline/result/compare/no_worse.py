"""The gate's rules `no_worse ...`: a run is no worse than its baseline, figure by figure (docs/gate.md)."""

from __future__ import annotations

from collections.abc import Iterator

from ..schema import GateRow, RunResult, Verdict
from .change_records import Change, FigureChange, FigureKind, RunComparison

RULE = "no_worse"
_VERDICTS = {Change.BETTER: Verdict.PASS, Change.SAME: Verdict.PASS, Change.WORSE: Verdict.FAIL}
_METRICS = (FigureKind.METRIC, FigureKind.METRIC_DRIFT)
_RATIOS = (FigureKind.LATENCY, FigureKind.SIZE, FigureKind.MEMORY)


def no_worse_rows(comparison: RunComparison, result: RunResult) -> tuple[GateRow, ...]:
    """Return a row for each figure but the status, which other rules judge. What could not be compared is inconclusive:
    no evidence is no pass. `result` is the later run."""
    return tuple(_rows(comparison, result))


def _rows(comparison: RunComparison, result: RunResult) -> Iterator[GateRow]:
    for row in comparison.figures:
        if row.figure is FigureKind.PRESENCE:
            yield GateRow(f"{RULE} {row.figure}", "present", row.reason, Verdict.FAIL, row.artifact, row.runtime)
        elif row.figure is not FigureKind.STATUS and row.limit is not None:
            limit, change = _limit_and_change(row, row.limit, result)
            batch = "" if row.batch is None else f" batch={row.batch}"
            verdict = _verdict(row, result)
            value = row.reason if change is None or row.verdict is Change.NOT_COMPARED else change
            unit = row.unit if row.figure in _METRICS else None
            rule = f"{RULE} {row.figure}{batch}"
            was, now = (row.before, row.after) if row.figure is FigureKind.METRIC else (None, None)
            yield GateRow(
                rule, limit, value, verdict, row.artifact, row.runtime, unit, row.samples_needed, was, now
            )  # fmt: skip


def _verdict(row: FigureChange, result: RunResult) -> Verdict:
    """Judge a figure. An interval passes where all of it is no worse than the limit, however much better it reaches."""
    is_open = row.verdict is Change.INCONCLUSIVE and row.figure is not FigureKind.METRIC
    if is_open and row.change is not None and row.ci95 and row.limit is not None:
        low, high = row.ci95
        if row.figure is FigureKind.LATENCY:
            return Verdict.PASS if high <= 1 + row.limit else Verdict.INCONCLUSIVE
        most_loss = -low if _higher_is_better(row, result) else high
        return Verdict.PASS if most_loss <= row.limit else Verdict.INCONCLUSIVE
    return _VERDICTS.get(row.verdict, Verdict.INCONCLUSIVE)


def _limit_and_change(row: FigureChange, limit: float, result: RunResult) -> tuple[float, float | None]:
    """Return both as the gate has them: the most that a ratio or a loss may be, the least that a gain in dB may be."""
    if row.figure in _RATIOS:
        return 1 + limit, row.change
    if row.figure is FigureKind.DRIFT:
        return -limit, row.change
    is_gain = _higher_is_better(row, result)
    return limit, None if row.change is None else -row.change if is_gain else row.change


def _higher_is_better(row: FigureChange, result: RunResult) -> bool:
    metrics = (drift.metric for drift in result.drift if (drift.artifact, drift.runtime) == (row.artifact, row.runtime))
    return next((metric.higher_is_better for metric in metrics if metric), True)
