"""The gate's rules on a baseline: a row for each figure, with its verdict at and beyond the limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from transload.pipeline.result.compare.change_records import Change, FigureChange, FigureKind, RunComparison
from transload.pipeline.result.compare.no_worse import no_worse_rows
from transload.pipeline.result.schema import GateRow, RunResult, Verdict

from ...show import samples
from .test_run_comparison import small

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


def figure(
    kind: FigureKind,
    verdict: Change,
    *,
    change: float | None = 1.0,
    ci95: tuple[float, float] | None = None,
    limit: float | None = 0.05,
    batch: int | None = None,
) -> FigureChange:
    """A figure of onnx in onnxruntime."""
    return FigureChange("onnx", "onnxruntime", batch, kind, 0.9, 0.8, change, ci95, limit, verdict, "why", "share", 70)


def rows(*figures: FigureChange, result: RunResult | None = None) -> tuple[GateRow, ...]:
    comparison = RunComparison("before", "after", (), (), (), figures)
    return no_worse_rows(comparison, result or small())


def only(row: FigureChange, *, higher_is_better: bool = True) -> GateRow:
    """The gate's row of one figure, in a run whose metric is better higher or lower."""
    task = replace(samples.metric(0.0, -0.001, 0.001), higher_is_better=higher_is_better)
    elsewhere = replace(task, higher_is_better=not higher_is_better)
    drift = (
        samples.drift("tflite", "onnxruntime", 90.0, task=elsewhere),
        samples.drift("onnx", "torch", 90.0, task=elsewhere),
        samples.drift("onnx", "onnxruntime", 90.0),
        samples.drift("onnx", "onnxruntime", 90.0, task=task),
    )
    (gate_row,) = rows(row, result=replace(small(), drift=drift))
    return gate_row


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (Change.BETTER, PASS),
        (Change.SAME, PASS),
        (Change.WORSE, FAIL),
        (Change.INCONCLUSIVE, OPEN),
        (Change.NOT_COMPARED, OPEN),
    ],
)
@pytest.mark.parametrize("kind", sorted({*FigureKind} - {FigureKind.STATUS, FigureKind.PRESENCE}))
def test_without_an_interval_the_change_is_the_verdict(kind: FigureKind, change: Change, verdict: Verdict) -> None:
    assert only(figure(kind, change)).verdict is verdict


def test_what_is_gone_fails_and_what_has_no_limit_or_is_a_status_has_no_row() -> None:
    gone = figure(FigureKind.PRESENCE, Change.WORSE, limit=None)
    others = [figure(FigureKind.SIZE, Change.WORSE, limit=None), figure(FigureKind.STATUS, Change.WORSE)]
    (row,) = rows(gone, *others)
    assert (row.rule, row.limit, row.got, row.verdict) == ("no_worse presence", "present", "why", FAIL)


@pytest.mark.parametrize(
    ("kind", "ci95", "higher_is_better", "verdict"),
    [
        (FigureKind.LATENCY, (0.5, 1.05), True, PASS),  # it ends on the limit, however fast it may be
        (FigureKind.LATENCY, (0.5, 1.0501), True, OPEN),
        (FigureKind.METRIC_DRIFT, (-0.05, 9.0), True, PASS),
        (FigureKind.METRIC_DRIFT, (-0.0501, 9.0), True, OPEN),
        (FigureKind.METRIC_DRIFT, (-9.0, 0.05), False, PASS),
        (FigureKind.METRIC_DRIFT, (-9.0, 0.0501), False, OPEN),
        (FigureKind.METRIC, (-0.01, 0.01), True, OPEN),  # its own verdict holds
    ],
)
def test_an_open_interval_passes_where_all_of_it_is_no_worse_than_the_limit(
    kind: FigureKind, ci95: tuple[float, float], higher_is_better: bool, verdict: Verdict
) -> None:
    row = figure(kind, Change.INCONCLUSIVE, ci95=ci95)
    assert only(row, higher_is_better=higher_is_better).verdict is verdict
    assert only(replace(row, change=None), higher_is_better=higher_is_better).verdict is OPEN
    assert only(replace(row, verdict=Change.NOT_COMPARED), higher_is_better=higher_is_better).verdict is OPEN


@pytest.mark.parametrize(
    ("kind", "higher_is_better", "limit", "change"),
    [
        (FigureKind.SIZE, True, 1.05, 1.0),
        (FigureKind.LATENCY, True, 1.05, 1.0),
        (FigureKind.MEMORY, True, 1.05, 1.0),
        (FigureKind.DRIFT, True, -0.05, 1.0),  # the least that a gain in dB may be
        (FigureKind.METRIC, True, 0.05, -1.0),  # a gain is no loss
        (FigureKind.METRIC, False, 0.05, 1.0),
        (FigureKind.METRIC_DRIFT, True, 0.05, -1.0),
    ],
)
def test_limit_and_change_stand_as_the_gate_has_them(
    kind: FigureKind, higher_is_better: bool, limit: float, change: float
) -> None:
    row = only(figure(kind, Change.SAME, batch=8), higher_is_better=higher_is_better)
    assert (row.rule, row.limit, row.got) == (f"no_worse {kind} batch=8", limit, change)
    assert (row.artifact, row.runtime, row.samples_needed) == ("onnx", "onnxruntime", 70)
    is_metric = kind in (FigureKind.METRIC, FigureKind.METRIC_DRIFT)
    assert row.unit == ("share" if is_metric else None)
    assert (row.before, row.after) == ((0.9, 0.8) if kind is FigureKind.METRIC else (None, None))


def test_what_was_not_compared_says_why() -> None:
    assert only(figure(FigureKind.SIZE, Change.NOT_COMPARED)).got == "why"
    assert only(figure(FigureKind.METRIC, Change.SAME, change=None)).got == "why"
    assert only(figure(FigureKind.SIZE, Change.SAME)).rule == "no_worse size"


def test_a_metric_that_no_row_has_is_better_higher() -> None:
    row = figure(FigureKind.METRIC, Change.SAME)
    (gate_row,) = rows(row, result=replace(small(), drift=()))
    assert gate_row.got == -1.0
