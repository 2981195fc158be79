"""Runs compared: what is worse is said, what cannot be known is not, and both directions agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transload.models.errors import BadRequest, Exit
from transload.pipeline.result.compare.change_records import Change, FigureChange, FigureKind
from transload.pipeline.result.compare.compare_limits import CompareLimits
from transload.pipeline.result.compare.run_comparison import compare_runs, decide
from transload.pipeline.result.schema import RunResult, SampleSetRow, SourceRow, Status
from transload.pipeline.show.compare_text import render_compare_markdown, terminal_lines

from ...show import samples

RUN = samples.result()
SOURCE = SourceRow("a" * 64, SampleSetRow(300, "c" * 64, None))
SWAPPED = {Change.BETTER: Change.WORSE, Change.WORSE: Change.BETTER}


def small(
    *,
    status: Status = Status.VERIFIED,
    sqnr_db: float | None = 100.0,
    delta: tuple[float, float, float] = (0.0, -0.001, 0.001),
    size: int = 1000,
    ratio: float = 0.5,
    spread: float = 1.01,
    processes: int = 3,
    peak: int = 1_000_000,
) -> RunResult:
    """A run of one artifact in one runtime."""
    row = samples.latency("onnx", "onnxruntime", ratio * 1e-3, ratio=ratio, ci95=(ratio / spread, ratio * spread))
    return replace(
        RUN,
        artifacts=(samples.artifact("onnx", size, status),),
        drift=(samples.drift("onnx", "onnxruntime", sqnr_db, task=samples.metric(*delta)),),
        latency=(replace(row, processes=processes, peak_rss_bytes=peak),),
    )


def only(figure: FigureKind, before: RunResult, after: RunResult, limits: CompareLimits | None = None) -> FigureChange:
    rows = compare_runs(before, after, limits).figures
    (row,) = (row for row in rows if row.figure is figure and row.artifact == "onnx")
    return row


CHANGES: list[tuple[FigureKind, RunResult, Change]] = [
    (FigureKind.STATUS, small(status=Status.DEGRADED), Change.WORSE),
    (FigureKind.DRIFT, small(sqnr_db=90.0), Change.WORSE),
    (FigureKind.DRIFT, small(sqnr_db=95.0), Change.SAME),
    (FigureKind.DRIFT, small(sqnr_db=None), Change.BETTER),
    (FigureKind.METRIC_DRIFT, small(delta=(-0.03, -0.032, -0.028)), Change.WORSE),
    (FigureKind.METRIC_DRIFT, small(delta=(-0.03, -0.06, 0.001)), Change.INCONCLUSIVE),
    (FigureKind.METRIC_DRIFT, small(delta=(-0.001, -0.002, 0.0)), Change.SAME),
    (FigureKind.SIZE, small(size=1049), Change.SAME),
    (FigureKind.SIZE, small(size=1051), Change.WORSE),
    (FigureKind.SIZE, small(size=900), Change.BETTER),
    (FigureKind.LATENCY, small(ratio=0.505), Change.SAME),
    (FigureKind.LATENCY, small(ratio=0.55), Change.WORSE),
    (FigureKind.LATENCY, small(ratio=0.55, spread=1.2), Change.INCONCLUSIVE),
    (FigureKind.LATENCY, small(ratio=0.45), Change.BETTER),
    (FigureKind.LATENCY, small(ratio=0.9, processes=1), Change.INCONCLUSIVE),
    (FigureKind.MEMORY, small(peak=1_200_000), Change.WORSE),
]  # fmt: skip


@pytest.mark.parametrize(("figure", "after", "verdict"), CHANGES, ids=lambda value: str(value)[:12])
def test_a_change_has_its_verdict_in_both_directions(figure: FigureKind, after: RunResult, verdict: Change) -> None:
    assert only(figure, small(), after).verdict is verdict
    assert only(figure, after, small()).verdict is SWAPPED.get(verdict, verdict)


def test_agreement_beyond_120_db_is_rounding() -> None:
    assert only(FigureKind.DRIFT, small(sqnr_db=140.0), small(sqnr_db=121.0)).verdict is Change.SAME
    assert only(FigureKind.DRIFT, small(sqnr_db=None), small(sqnr_db=121.0)).verdict is Change.SAME


def test_the_interval_of_a_latency_is_that_of_both_runs() -> None:
    row = only(FigureKind.LATENCY, small(ratio=0.5, spread=1.03), small(ratio=0.6, spread=1.04))
    assert row.change == pytest.approx(1.2)
    assert row.ci95 == pytest.approx((1.2 / 1.0504, 1.2 * 1.0504), abs=2e-4)  # exp(hypot(ln 1.03, ln 1.04)) = 1.0504


@pytest.mark.parametrize(("p50_s", "verdict"), [(0.5e-3, Change.WORSE), (1.1e-3, Change.INCONCLUSIVE)])
def test_ratios_to_a_source_of_another_speed_decide_nothing(p50_s: float, verdict: Change) -> None:
    """A wider net makes its own source slower, too: its ratio may fall while each call takes twice as long."""
    before, after = small(), small(ratio=0.55)
    after = replace(
        after,
        source=replace(SOURCE, sha256="b" * 64),
        latency=tuple(replace(row, p50_s=p50_s) for row in after.latency),
    )
    row = only(FigureKind.LATENCY, replace(before, source=SOURCE), after)
    assert row.verdict is verdict
    assert ("--remeasure" in row.reason) is (verdict is Change.INCONCLUSIVE)


def test_limits_decide() -> None:
    assert only(FigureKind.SIZE, small(), small(size=1100), CompareLimits(size=0.2)).verdict is Change.SAME
    with pytest.raises(BadRequest, match="the limit size is inf"):
        CompareLimits(size=float("inf"))


UNLIKE: list[tuple[Callable[[RunResult], RunResult], str]] = [
    (lambda run: replace(run, environment=replace(run.environment, cpu="6502")), "cpu: .* against 6502"),
    (lambda run: replace(run, environment=replace(run.environment, cores=1)), "cores: .* against 1"),
    (lambda run: replace(run, environment=replace(run.environment, gpus=("H100",))), "GPU: none against H100"),
    (lambda run: replace(run, environment=replace(run.environment, memory_bytes=10**9)), "memory: .* against 1.0 GB"),
    (lambda run: replace(run, environment=replace(run.environment, platform="CP/M")), "platform: .* against CP/M"),
    (
        lambda run: replace(run, environment=replace(run.environment, packages={"onnxruntime": "9"})),
        "onnxruntime: .* against 9",
    ),
    (lambda run: replace(run, latency=(replace(run.latency[0], threads=2),)), "threads: 1 against 2"),
    (lambda run: replace(run, latency=(replace(run.latency[0], device="cuda"),)), "device: cpu against cuda"),
    (lambda run: replace(run, latency=(replace(run.latency[0], reference="pt2 in torch"),)), "reference: source in"),
]


@pytest.mark.parametrize(("change", "reason"), UNLIKE, ids=[reason.partition(":")[0] for _, reason in UNLIKE])
def test_latencies_of_unlike_conditions_are_refused_and_the_rest_compared(
    change: Callable[[RunResult], RunResult], reason: str
) -> None:
    after = change(small(ratio=0.9, size=1200))
    row = only(FigureKind.LATENCY, small(), after)
    assert (row.verdict, row.change, row.ci95) == (Change.NOT_COMPARED, None, None)
    assert re.search(reason, row.reason)
    assert only(FigureKind.MEMORY, small(), after).verdict is Change.NOT_COMPARED
    assert only(FigureKind.SIZE, small(), after).verdict is Change.WORSE


def test_what_is_new_and_what_is_gone() -> None:
    more = replace(small(), artifacts=(*small().artifacts, samples.artifact("tflite")))
    more = replace(more, drift=(*more.drift, samples.drift("onnx", "openvino", 90.0)))
    assert compare_runs(small(), more).new == ("tflite", "onnx in openvino")
    assert compare_runs(more, small()).gone == ("tflite", "onnx in openvino")


def test_a_runtime_that_no_longer_answers_is_worse() -> None:
    silent = replace(small(), drift=(samples.silent(small().drift[0]),))
    assert only(FigureKind.DRIFT, small(), silent).verdict is Change.WORSE


def test_exit_statuses() -> None:
    assert decide(compare_runs(small(), small()))[1] is Exit.PASS
    assert decide(compare_runs(small(), small(ratio=0.9, spread=2.0)))[1] is Exit.INCONCLUSIVE
    assert decide(compare_runs(small(), small(size=2000, ratio=0.9, spread=2.0)))[1] is Exit.FAIL
    nothing = replace(small(), artifacts=(), drift=(), latency=())
    assert decide(compare_runs(small(), nothing))[1] is Exit.FAIL  # what the earlier run had is missing
    assert decide(compare_runs(small(), nothing, allow_missing=True))[1] is Exit.INCONCLUSIVE


rows = st.builds(
    small,
    status=st.sampled_from(Status),
    sqnr_db=st.none() | st.floats(0, 150),
    delta=st.tuples(st.floats(-0.1, 0.1), st.floats(0, 0.1), st.floats(0, 0.1)).map(
        lambda parts: (round(parts[0], 4), round(parts[0], 4) - parts[1], round(parts[0], 4) + parts[2])
    ),
    size=st.integers(1, 10**6),
    ratio=st.floats(0.01, 100),
    spread=st.floats(1, 2),
    processes=st.integers(0, 5),
    peak=st.integers(1, 10**9),
)


@given(rows)
def test_a_run_is_never_better_or_worse_than_itself(run: RunResult) -> None:
    assert not {row.verdict for row in compare_runs(run, run).figures} & {Change.BETTER, Change.WORSE}


@given(rows, rows)
def test_swapped_runs_have_swapped_verdicts(first: RunResult, second: RunResult) -> None:
    forth, back = compare_runs(first, second), compare_runs(second, first)
    sided = (FigureKind.METRIC, FigureKind.PRESENCE)  # a loss may be as large as its limit, a gain is any
    there, again = ([row.verdict for row in run.figures if row.figure not in sided] for run in (forth, back))
    assert [SWAPPED.get(verdict, verdict) for verdict in there] == again
    assert (forth.new, forth.gone) == (back.gone, back.new)


def test_a_whole_run_against_itself_is_written() -> None:
    comparison = compare_runs(RUN, RUN)
    lines = terminal_lines(comparison)
    assert lines[-1].endswith(comparison.headline)
    assert max(map(len, lines[:-1])) <= 80
    assert "figures are the same" in render_compare_markdown(comparison)


def test_hostile_names_break_out_of_nothing() -> None:
    run = replace(small(), artifacts=(samples.artifact("<b>|`x`\x1b[31m"),), drift=(), latency=())
    text = render_compare_markdown(compare_runs(run, run))
    assert "<b>" not in text
    assert "\x1b" not in "\n".join([text, *terminal_lines(compare_runs(run, run))])
