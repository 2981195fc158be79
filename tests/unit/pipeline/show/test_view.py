"""What lies beside each other, what failed, what is in doubt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from transload.pipeline.result.doubt_kinds import DoubtKind
from transload.pipeline.result.schema import ArtifactRow, RouteStatus, RunResult, Status, TriedRow, Verdict, WeightsRow
from transload.pipeline.show import doubt_view, html_page, markdown, view
from transload.pipeline.show.recommendation import ReleaseConstraint, recommend
from transload.pipeline.show.tables.artifact_tables import route_table

from . import samples


def test_the_reference_has_the_first_line_and_every_artifact_its_own() -> None:
    run = samples.result()
    first, *others = view.lines(run)
    assert (first.name, first.format, first.status, first.verdict) == ("source", "other", "reference", None)
    assert [line.name for line in others] == [row.name for row in run.artifacts]


def test_the_reference_shows_its_own_metric() -> None:
    assert view.reference_score(samples.result()) == "98.33 %"
    assert view.reference_score(samples.empty()) == "\u2013"


def test_a_line_shows_the_worst_of_its_drift() -> None:
    line = next(one for one in view.lines(samples.result()) if one.name == "onnx")
    assert line.worst is not None
    assert line.worst.sqnr_db == 128.4


def test_a_line_shows_non_finite_before_any_sqnr() -> None:
    run = samples.result()
    spoilt = replace(samples.drift("onnx", "onnxruntime", 300.0), non_finite=1)
    line = next(one for one in view.lines(replace(run, drift=(*run.drift, spoilt))) if one.name == "onnx")
    assert line.worst is spoilt


def test_latencies_of_another_device_or_thread_count_never_lie_in_the_table() -> None:
    run = samples.result()
    other = samples.latency("onnx", "onnxruntime-elsewhere", 1e-5, device="cuda:0")
    threads = replace(samples.latency("onnx", "onnxruntime-many", 1e-5), threads=8)
    mixed = replace(run, latency=(*run.latency, other, threads))
    shown = {speed.runtime for line in view.lines(mixed) for speed in line.speeds}
    assert not shown & {"onnxruntime-elsewhere", "onnxruntime-many"}
    assert view.elsewhere(mixed) == (other, threads)


def test_the_reference_sets_the_condition_even_where_it_is_outnumbered() -> None:
    run = samples.result()
    timed = tuple(row if row.artifact == "source" else replace(row, device="cuda:0") for row in run.latency)
    assert view.main_condition(replace(run, latency=timed)) == view.Condition("cpu", 1)
    assert str(view.Condition("cuda:0", 4)) == "cuda:0, 4 threads"


def test_the_table_shows_the_smallest_and_the_largest_batch() -> None:
    run = samples.result()
    timed = (*run.latency, samples.latency("pt2", "torch", 1e-3, batch=4))
    assert view.batches(replace(run, latency=timed)) == (1, 8)
    assert view.batches(samples.empty()) == ()


def test_findings_tell_failures_first_each_once_with_its_log() -> None:
    found = view.findings(samples.result(), samples.LOGS)
    assert [(one.subject, one.verdict, one.log) for one in found] == [
        ("saved-model in tfserving-rest", Verdict.FAIL, "logs/bench-rest.log"),
        ("tflite:int8 in tflite", Verdict.FAIL, "logs/validate-tflite-int8.log"),
        ("tflite:int8-dynamic in tflite", Verdict.INCONCLUSIVE, None),
    ]
    assert found[0].sentence == samples.SENTENCE
    assert found[1].sentence == (  # which the rule metric_loss would say once more
        "drift: accuracy changed by -3.89 pp [-6.11, -1.94] at batch 360, limit accuracy loss at most 1.00 pp"
    )


def test_an_unverified_artifact_is_a_finding_without_any_gate_row() -> None:
    run = samples.result()
    row = samples.artifact("keras", status=Status.UNVERIFIED)
    found = view.findings(replace(run, artifacts=(row,), gate=()), {})
    assert [(one.subject, one.verdict, one.sentence) for one in found] == [
        ("keras", Verdict.INCONCLUSIVE, "it is unverified")
    ]


def test_doubts_that_differ_only_in_numbers_are_told_once() -> None:
    noisy = [
        samples.latency(
            "onnx", "onnxruntime", 1e-3, batch=batch, doubts=(f"a p99 from {batch} samples is a guess", "hot")
        )
        for batch in (1, 2, 3)
    ]
    found = doubt_view.doubts((*noisy, samples.latency("x", "y", None, doubts=("died",))))
    assert [(doubt.text, len(doubt.rows)) for doubt in found] == [("a p99 from 1 samples is a guess", 3), ("hot", 3)]
    assert [doubt.who for doubt in found] == ["3 latencies, as onnx in onnxruntime at batch 1", "3 latencies"]


def test_the_weightiest_doubts_come_first_however_many_rows_have_the_others() -> None:
    guess, hot = "a p99 from 60 calls is a guess", "the clock fell by 20%"
    rows = [
        replace(samples.latency("onnx", "a", 1e-3, batch=batch, doubts=(guess,)), doubt_kinds=(DoubtKind.FEW_CALLS,))
        for batch in (1, 2, 3)
    ]
    slow = replace(
        samples.latency("onnx", "b", 1e-3, doubts=(hot, guess)), doubt_kinds=(DoubtKind.THROTTLED, DoubtKind.FEW_CALLS)
    )
    old = samples.latency("onnx", "c", 1e-3, doubts=("of an older file",))
    found = doubt_view.doubts((*rows, old, slow))
    assert [(doubt.kind, doubt.text, len(doubt.rows)) for doubt in found] == [
        (DoubtKind.THROTTLED, hot, 1), (DoubtKind.FEW_CALLS, guess, 4), (None, "of an older file", 1),
    ]  # fmt: skip


def test_routes_that_were_not_needed_are_one_line() -> None:
    verified = TriedRow(("a",), RouteStatus.VERIFIED, "agrees")
    spared = TriedRow(("b",), RouteStatus.NOT_TRIED, "a is cheaper and verified")
    row = replace(samples.artifact("onnx"), tried=(verified, spared, spared))
    assert routes_of(row) == [
        ("onnx", "verified", "a", "agrees"),
        ("", "", "", "2 further routes were not needed: a is cheaper and verified"),
    ]
    assert routes_of(replace(row, tried=(spared,)))[-1][-1].startswith("1 further route was not needed")
    assert len(routes_of(replace(row, tried=(verified,)))) == 1
    page = html_page.render_html(replace(samples.result(), artifacts=(row,)), {})
    assert page.count("a is cheaper and verified") == 1
    assert "2 further routes were not needed: a is cheaper and verified" in page


def routes_of(row: ArtifactRow) -> list[tuple[str, ...]]:
    return route_table(replace(samples.result(), artifacts=(row,))).texts()[1:]


def recommended(run: RunResult) -> RunResult:
    return replace(run, recommendation=recommend(run, ReleaseConstraint(None, 0.5, 3.6)))


def test_what_to_release_is_told_with_its_reason_in_every_report() -> None:
    run = recommended(samples.passing())
    first, second = view.recommendations(run)[:2]
    assert first.startswith("in process: ")
    assert second.startswith("served by tfserving-grpc: saved-model in tfserving-grpc at batch 1: ")
    assert first.endswith(" per million samples")
    asked = "a loss of at most 0.5 pp, 3.6 an hour for the machine"
    assert view.constraint(run) == asked
    flat = " ".join(samples.render(run, 600).split())
    for shown in (flat, markdown.render_markdown(run)):
        assert first in shown
        assert second in shown
        assert asked in shown
    page = html_page.render_html(run, {})
    assert f"Asked for: {asked}." in page
    assert "<strong>saved-model in tfserving-grpc</strong> at batch 1: " in page
    assert view.recommendations(samples.result()) == ()


def test_where_nothing_may_be_released_the_reports_say_so() -> None:
    run = samples.passing()
    none = replace(run, recommendation=recommend(run, ReleaseConstraint(latency_bound_s=1e-9)))
    assert view.constraint(none) == "a p99 of at most 0.001 \u00b5s, by the upper end of its 95 % interval"
    assert "<strong>none</strong>, because no copy of 7 may be released" in html_page.render_html(none, {})


def test_the_headline_names_what_failed() -> None:
    assert view.headline(samples.result()) == (
        "answering, drift and metric loss failed for saved-model and tflite:int8; 7 of 9 artifacts keep their tolerance"
    )


def test_the_headline_of_a_good_run_counts_the_checks() -> None:
    run = samples.passing()
    assert run.verdict is Verdict.PASS
    assert (
        view.headline(run) == f"7 of 7 artifacts keep their tolerance; {len(run.gate)} of {len(run.gate)} checks passed"
    )


def test_the_headline_names_what_is_undecided() -> None:
    run = samples.without(samples.result(), "tflite:int8", runtime="tfserving-rest")
    assert view.headline(run).startswith("drift and metric loss undecided for tflite:int8-dynamic; 7 of 8")


def test_the_headline_names_targets_with_no_route_left() -> None:
    run = samples.judged(replace(samples.passing(), artifacts=(samples.artifact("keras", None),)))
    assert view.headline(run) == "no route left to keras; 0 of 1 artifacts keep their tolerance"
    assert run.exit_code == 4


def test_who_served_is_told() -> None:
    run = samples.result()
    assert view.servers(run) == "Served by transload's own TF Serving front, on loopback."
    assert view.servers(samples.empty()) == ""


def test_what_loses_nan_is_named_in_every_report() -> None:
    run = samples.result()
    assert view.lost(run) == ""
    lossy = replace(run, drift=(replace(run.drift[0], lost="with x NaN in one place: no number"), *run.drift[1:]))
    sentence = f"{run.drift[0].artifact} in {run.drift[0].runtime}: with x NaN in one place: no number."
    assert view.lost(lossy) == sentence
    flat = " ".join(samples.render(lossy, 400).split())
    for shown in (flat, markdown.render_markdown(lossy), html_page.render_html(lossy, {})):
        assert sentence in shown


def test_what_reduced_copies_store_is_told_in_the_reports_that_are_read_later() -> None:
    run = samples.result()
    assert view.weights(run) == ""
    stored = (WeightsRow("int8", 4, 149_000), WeightsRow("float32", 6, 2_730))
    counted = replace(run, artifacts=tuple(
        replace(row, weights=stored) if row.name == "tflite:int8" else row for row in run.artifacts
    ))  # fmt: skip
    sentence = "tflite:int8 weights: 4 int8 (149 KB), 6 float32 (2.73 KB)."
    for shown in (markdown.render_markdown(counted), html_page.render_html(counted, {})):
        assert sentence in shown


def test_a_target_that_was_left_out_is_told_with_its_reason_in_every_report() -> None:
    run = samples.result()
    assert view.left_out(replace(run, left_out=())) == ""
    sentence = "onnx:fp16 was not named, and is left out: nothing is reduced to fp16: it stores no weights; use"
    assert view.left_out(run).startswith(sentence)
    for shown in (samples.render(run, 400), markdown.render_markdown(run), html_page.render_html(run, {})):
        assert sentence in shown


def test_what_needs_flex_is_named_with_its_operators_in_every_report() -> None:
    run = samples.result()
    assert view.flex(run) == ""
    needy = replace(run, artifacts=tuple(
        replace(row, flex=("FlexErf", "FlexMul")) if row.name == "tflite" else row for row in run.artifacts
    ))  # fmt: skip
    sentence = (
        "tflite needs TensorFlow's Flex delegate for Erf, Mul: what needs it is run in tflite-flex, another build"
    )
    assert view.flex(needy).startswith(sentence)
    flat = " ".join(samples.render(needy, 400).split())
    for shown in (flat, markdown.render_markdown(needy), html_page.render_html(needy, {}).replace("&#39;", "'")):
        assert sentence in shown


DOUBT = "not sandboxed: --trust was given"


@pytest.mark.parametrize(
    "rendered",
    [
        markdown.render_markdown,
        lambda run: html_page.render_html(run, {}),
        lambda run: samples.render(run, 80),
    ],
    ids=["markdown", "html", "terminal"],
)
def test_every_report_tells_the_doubts_that_the_verdict_is_under(rendered: Callable[[RunResult], str]) -> None:
    run = samples.passing()
    assert DOUBT not in rendered(run)
    assert DOUBT in rendered(replace(run, doubts=(DOUBT,)))
