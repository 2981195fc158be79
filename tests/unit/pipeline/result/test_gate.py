"""Each rule at, below and above its limit; and what the rows add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from transload.models.errors import Exit
from transload.pipeline.result.gate import GateRules, gate, verdict_of, why_not_made
from transload.pipeline.result.schema import (
    ArtifactRow,
    DriftRow,
    GateRow,
    LatencyRow,
    MetricRow,
    RouteStatus,
    Status,
    Tolerance,
    TriedRow,
    Verdict,
)

from ..show.samples import FP32, REDUCED, artifact, drift, latency, metric, silent

PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE
ONNX = (artifact("onnx"),)
AGREES = (drift("onnx", "onnxruntime", 128.0),)


def rows_of(
    rule: str,
    rules: GateRules,
    artifacts: Sequence[ArtifactRow] = ONNX,
    compared: Sequence[DriftRow] = AGREES,
    timed: Sequence[LatencyRow] = (),
) -> list[GateRow]:
    return [row for row in gate(rules, artifacts, compared, timed) if row.rule.startswith(rule)]


def only(rows: Sequence[GateRow]) -> GateRow:
    (row,) = rows
    return row


@pytest.mark.parametrize(("sqnr_db", "verdict"), [(80.0, PASS), (80.1, PASS), (79.9, FAIL), (None, PASS)])
def test_sqnr_is_kept_at_the_limit_and_by_identical_answers(sqnr_db: float | None, verdict: Verdict) -> None:
    row = only(rows_of("sqnr_db", GateRules(sqnr_db=80.0), compared=[drift("onnx", "onnxruntime", sqnr_db)]))
    assert (row.verdict, row.limit, row.got) == (verdict, 80.0, sqnr_db or "identical")


def test_sqnr_judges_the_worst_batch() -> None:
    compared = [drift("onnx", "onnxruntime", 90.0, batch=1), drift("onnx", "onnxruntime", 70.0, batch=5)]
    row = only(rows_of("sqnr_db", GateRules(sqnr_db=80.0), compared=compared))
    assert (row.verdict, row.got) == (FAIL, 70.0)


def test_differing_non_finite_elements_fail_whatever_the_sqnr() -> None:
    compared = [replace(drift("onnx", "onnxruntime", 200.0), non_finite=1)]
    assert only(rows_of("sqnr_db", GateRules(sqnr_db=80.0), compared=compared)).verdict is FAIL


def test_noise_without_an_sqnr_decides_nothing() -> None:
    compared = [replace(drift("onnx", "onnxruntime", 90.0), sqnr_db=None)]
    row = only(rows_of("sqnr_db", GateRules(sqnr_db=80.0), compared=compared))
    assert (row.verdict, row.got) == (OPEN, "no SQNR")


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.02, 0.0, PASS),  # the whole interval keeps the limit, with its end on it
        (-0.019, 0.01, PASS),
        (-0.021, 0.0, OPEN),  # it spans the limit
        (-0.05, -0.02, OPEN),  # its best end lies on the limit
        (-0.05, -0.021, FAIL),
    ],
)
def test_the_metric_is_judged_by_its_interval(low: float, high: float, verdict: Verdict) -> None:
    compared = [drift("onnx", "onnxruntime", 30.0, task=metric((low + high) / 2, low, high))]
    row = only(rows_of("metric_loss", GateRules(metric_loss=0.02), compared=compared))
    assert row.verdict is verdict
    assert row.limit == 0.02
    assert row.got == pytest.approx(-(low + high) / 2)


def test_a_metric_that_is_better_lower_loses_by_rising_in_its_own_unit() -> None:
    rising = replace(metric(0.3, 0.2, 0.4), name="mae", unit="mm", higher_is_better=False)
    compared = [drift("onnx", "onnxruntime", 30.0, tolerance=Tolerance(None, 0.1), task=rising)]
    row = only(rows_of("metric_loss", GateRules(), compared=compared))
    assert (row.verdict, row.got, row.unit, row.samples_needed) == (FAIL, 0.3, "mm", None)
    drifted = only(rows_of("drift", GateRules(), compared=compared))
    assert drifted.limit == "mae loss at most 0.1 mm"
    assert drifted.got == "mae changed by +0.3 mm [+0.2, +0.4] at batch 360"
    falling = [replace(compared[0], metric=replace(rising, delta=-0.3, ci95=(-0.4, -0.2)))]
    assert only(rows_of("metric_loss", GateRules(), compared=falling)).verdict is PASS


def test_an_open_metric_says_how_many_samples_would_decide_it() -> None:
    compared = [drift("onnx", "onnxruntime", 30.0, tolerance=REDUCED, task=metric(-0.005, -0.015, 0.005))]
    row = only(rows_of("metric_loss", GateRules(), compared=compared))
    assert (row.verdict, row.unit) == (OPEN, "share")
    assert row.samples_needed == 3000  # 360 (2.80 / 1.96 * 0.01 / 0.005)^2, rounded up


def test_answers_of_another_shape_are_drift_and_no_lack_of_an_answer() -> None:
    words = "output y has the shape [1, 3], the reference's [1, 4]"
    other = replace(silent(drift("onnx", "onnxruntime", None)), mismatch=words)
    compared = [other, drift("onnx", "onnxruntime", 90.0)]
    assert [row.verdict for row in rows_of("answers", GateRules(), compared=compared)] == [PASS]
    row = only(rows_of("drift", GateRules(), compared=compared))
    assert (row.verdict, row.got) == (FAIL, f"{words} at batch 360")
    assert only(rows_of("sqnr_db", GateRules(sqnr_db=60.0), compared=compared)).verdict is FAIL


def test_the_metric_may_lose_what_the_recipe_allows_unless_a_limit_is_given() -> None:
    compared = [drift("onnx", "onnxruntime", 30.0, tolerance=REDUCED, task=metric(-0.02, -0.03, -0.015))]
    assert only(rows_of("metric_loss", GateRules(), compared=compared)).verdict is FAIL
    assert only(rows_of("metric_loss", GateRules(metric_loss=0.03), compared=compared)).verdict is PASS


def test_an_fp32_copy_has_no_metric_rule_of_its_own() -> None:
    compared = [drift("onnx", "onnxruntime", 90.0, tolerance=FP32, task=metric(0, 0, 0))]
    assert rows_of("metric_loss", GateRules(), compared=compared) == []


@pytest.mark.parametrize(
    ("ci95", "verdict"),
    [
        ((0.8, 0.9), PASS),
        ((0.9, 1.0), PASS),
        ((0.9, 1.01), OPEN),
        ((1.0, 1.2), OPEN),
        ((1.01, 1.2), FAIL),
        (None, OPEN),
    ],
)
def test_the_latency_ratio_is_judged_by_its_interval(ci95: tuple[float, float] | None, verdict: Verdict) -> None:
    timed = [latency("onnx", "onnxruntime", 1e-3, ratio=0.95, ci95=ci95)]
    row = only(rows_of("latency_ratio", GateRules(latency_ratio=1.0), timed=timed))
    assert (row.rule, row.verdict, row.got) == ("latency_ratio batch=1", verdict, 0.95)
    unknown = [replace(timed[0], ratio_to_reference=None, ratio_ci95=None)]
    row = only(rows_of("latency_ratio", GateRules(latency_ratio=1.0), timed=unknown))
    assert (row.verdict, row.got) == (OPEN, "no ratio")


def test_a_limit_by_batch_size_judges_only_those_batches() -> None:
    timed = [latency("onnx", "onnxruntime", 1e-3, batch=batch, ratio=0.5, ci95=(0.4, 0.6)) for batch in (1, 8, 32)]
    rows = rows_of("latency_ratio", GateRules(latency_ratio={"1": 0.7, "8": 0.3}), timed=timed)
    assert [(row.rule, row.verdict) for row in rows] == [
        ("latency_ratio batch=1", PASS),
        ("latency_ratio batch=8", FAIL),
    ]


def test_the_reference_is_not_held_against_itself() -> None:
    timed = [latency("onnx", "onnxruntime", 1e-3, ratio=1.0, ci95=(1.0, 1.0))]
    assert rows_of("latency_ratio", GateRules(latency_ratio=0.9), timed=timed) == []


@pytest.mark.parametrize(("p99_s", "verdict"), [(0.0099, PASS), (0.01, PASS), (0.0101, FAIL)])
def test_p99_is_kept_at_its_limit(p99_s: float, verdict: Verdict) -> None:
    timed = [latency("onnx", "onnxruntime", 1e-3, p99_s=p99_s)]
    row = only(rows_of("latency_p99", GateRules(latency_p99=0.01), timed=timed))
    assert (row.verdict, row.got, row.limit) == (verdict, p99_s, 0.01)


@pytest.mark.parametrize(
    ("p90_s", "p99_s", "verdict"), [(2e-3, 9e-3, OPEN), (2e-3, 11e-3, OPEN), (10e-3, 12e-3, OPEN), (11e-3, 12e-3, FAIL)]
)
def test_a_doubted_p99_decides_only_where_the_p90_is_over_the_limit_too(
    p90_s: float, p99_s: float, verdict: Verdict
) -> None:
    doubts = ("a p99 from 40 samples is a guess",)
    timed = [latency("onnx", "onnxruntime", 1e-3, p90_s=p90_s, p99_s=p99_s, doubts=doubts)]
    assert only(rows_of("latency_p99", GateRules(latency_p99=0.01), timed=timed)).verdict is verdict


@pytest.mark.parametrize(("size", "verdict"), [(999, PASS), (1000, PASS), (1001, FAIL)])
def test_size_is_kept_at_its_limit(size: int, verdict: Verdict) -> None:
    row = only(rows_of("size", GateRules(size=1000), [artifact("onnx", size)]))
    assert (row.verdict, row.got, row.runtime) == (verdict, size, None)


@pytest.mark.parametrize(("size", "verdict"), [(499, PASS), (500, PASS), (501, FAIL)])
def test_size_ratio_is_held_against_pt2(size: int, verdict: Verdict) -> None:
    rows = rows_of("size_ratio", GateRules(size_ratio=0.5), [artifact("pt2", 1000), artifact("onnx", size)])
    assert [(row.verdict, row.got) for row in rows if row.artifact == "onnx"] == [(verdict, size / 1000)]


def test_size_ratio_without_pt2_decides_nothing() -> None:
    row = only(rows_of("size_ratio", GateRules(size_ratio=0.5)))
    assert (row.verdict, row.got) == (OPEN, "no pt2 to compare with")


@pytest.mark.parametrize("verdict", list(Verdict))
def test_drift_takes_over_the_worst_verdict_of_an_artifact_in_a_runtime(verdict: Verdict) -> None:
    compared = [*AGREES, drift("onnx", "onnxruntime", 40.0, batch=1, verdict=verdict)]
    row = only(rows_of("drift", GateRules(), compared=compared))
    assert (row.verdict, row.limit) == (verdict, "SQNR at least 60 dB")
    assert row.got == "SQNR 40 dB at batch 1"


@pytest.mark.parametrize(
    ("verdict", "got"),
    [
        (FAIL, "SQNR 90 dB, answers differ by up to 0.000126 at batch 360"),
        (OPEN, "SQNR 90 dB, too little evidence at batch 360"),
        (PASS, "SQNR 90 dB at batch 360"),
    ],
)
def test_drift_does_not_leave_a_good_sqnr_alone_beside_a_bad_verdict(verdict: Verdict, got: str) -> None:
    compared = [drift("onnx", "onnxruntime", 90.0, verdict=verdict)]
    assert only(rows_of("drift", GateRules(), compared=compared)).got == got


def test_drift_says_what_the_metric_did_where_that_is_what_counts() -> None:
    compared = [
        drift("onnx", "onnxruntime", 20.0, tolerance=REDUCED, batch=1),
        drift("onnx", "onnxruntime", 30.0, tolerance=REDUCED, task=metric(-0.004, -0.008, 0.0)),
    ]
    row = only(rows_of("drift", GateRules(), compared=compared))
    assert (row.limit, row.got) == (
        "accuracy loss at most 1.00 pp",
        "accuracy changed by -0.40 pp [-0.80, +0.00] at batch 360",
    )


@pytest.mark.parametrize(
    ("row", "got"),
    [
        (drift("onnx", "onnxruntime", 60.0, verdict=FAIL), "SQNR 60 dB, answers differ by up to 0.004"),
        (drift("onnx", "onnxruntime", None), "identical"),
        (replace(drift("onnx", "onnxruntime", None), max_abs=1.0), "no SQNR"),
        (
            replace(drift("onnx", "onnxruntime", None, verdict=FAIL), non_finite=2),
            "2 elements differ in being finite, no SQNR",
        ),
        (drift("onnx", "onnxruntime", 90.0, task=metric(0, 0, 0)), "SQNR 90 dB"),
        (drift("onnx", "onnxruntime", 20.0, tolerance=REDUCED), "SQNR 20 dB"),
    ],
)
def test_drift_says_the_numbers_that_were_judged(row: DriftRow, got: str) -> None:
    assert only(rows_of("drift", GateRules(), compared=[row])).got == f"{got} at batch 360"


def test_of_several_failures_another_form_is_told_before_a_loud_one() -> None:
    words = "output y has the shape [1, 3], the reference's [1, 4]"
    loud = drift("onnx", "onnxruntime", -20.0, batch=1, verdict=FAIL)
    compared = [loud, replace(drift("onnx", "onnxruntime", 20.0, verdict=FAIL), mismatch=words)]
    assert only(rows_of("drift", GateRules(), compared=compared)).got == f"{words} at batch 360"


def test_of_several_losses_the_largest_is_told() -> None:
    small, large = metric(-0.03, -0.035, -0.025), metric(-0.05, -0.055, -0.045)
    for tasks in ((small, large), (large, small)):
        compared = [drift("onnx", "onnxruntime", 30.0, batch=at, task=task) for at, task in enumerate(tasks, 1)]
        row = only(rows_of("metric_loss", GateRules(metric_loss=0.01), compared=compared))
        assert row.verdict is FAIL
        assert row.got == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(Status.VERIFIED, PASS), (Status.DEGRADED, FAIL), (Status.FAILED, FAIL), (Status.UNVERIFIED, OPEN)],
)
def test_require_verified_refuses_degraded_too(status: Status, verdict: Verdict) -> None:
    artifacts = [artifact("onnx", status=status)]
    row = only(rows_of("verified", GateRules(require_verified=True), artifacts))
    assert (row.verdict, row.limit, row.got) == (verdict, "verified", status)
    assert rows_of("verified", GateRules(), artifacts) == []


def test_an_artifact_that_answers_everywhere_passes() -> None:
    row = only(rows_of("answers", GateRules()))
    assert row == GateRow("answers", "answers", "answers", PASS, "onnx", "onnxruntime")


def test_a_runtime_that_could_not_be_timed_carries_its_sentence() -> None:
    timed = [latency("onnx", "onnxruntime", None, doubts=("killed by SIGSEGV",))]
    row = only(rows_of("answers", GateRules(), timed=timed))
    assert (row.verdict, row.got) == (FAIL, "killed by SIGSEGV")


@pytest.mark.parametrize(("server", "verdict"), [("remote", OPEN), ("binary", FAIL), ("embedded", FAIL), (None, FAIL)])
def test_the_silence_of_a_foreign_server_alone_decides_nothing(server: Any, verdict: Verdict) -> None:
    timed = [replace(latency("onnx", "onnxruntime", None, doubts=("answers 500",)), server=server)]
    assert only(rows_of("answers", GateRules(), timed=timed)).verdict is verdict
    compared = [replace(silent(AGREES[0]), verdict=OPEN if server == "remote" else FAIL)]
    assert only(rows_of("answers", GateRules(), compared=compared)).verdict is verdict
    crashed = [*compared, silent(drift("onnx", "onnxruntime", 128.0, batch=1))]
    assert only(rows_of("answers", GateRules(), compared=crashed)).verdict is FAIL


def test_the_silence_of_a_foreign_server_is_that_of_this_pair_alone() -> None:
    remote = replace(latency("onnx", "onnxruntime", None), server="remote")
    here = latency("tflite", "tflite", None)
    artifacts = [*ONNX, artifact("tflite")]
    rows = rows_of("answers", GateRules(), artifacts, compared=[], timed=[remote, here])
    assert {row.artifact: row.verdict for row in rows} == {"onnx": OPEN, "tflite": FAIL}
    answered = replace(latency("onnx", "onnxruntime", 1e-3, batch=8), server="embedded")
    rows = rows_of("answers", GateRules(), compared=[], timed=[remote, answered])
    assert [row.verdict for row in rows] == [OPEN]


def test_a_runtime_that_did_not_answer_the_comparison_carries_the_sentence_given() -> None:
    compared = [silent(AGREES[0])]
    found = gate(GateRules(), ONNX, compared, (), failures={("onnx", "onnxruntime"): "no result in 60 s"})
    assert [(row.rule, row.got, row.verdict) for row in found] == [("answers", "no result in 60 s", FAIL)]
    without_words = only(gate(GateRules(), ONNX, compared, ()))
    assert without_words.got == "it gave no answer at batch 360"


def test_a_runtime_that_failed_before_any_row_is_reported_all_the_same() -> None:
    found = gate(GateRules(), ONNX, (), (), failures={("onnx", "onnxruntime"): "needs onnxruntime"})
    assert [(row.got, row.verdict) for row in found] == [("needs onnxruntime", FAIL)]


def test_an_artifact_without_a_file_carries_the_reason_of_its_routes() -> None:
    row = only(rows_of("answers", GateRules(), [artifact("onnx", None)], ()))
    assert (row.got, row.runtime, row.verdict) == ("the converter ended early (killed by SIGABRT)", None, FAIL)


def test_an_artifact_that_nobody_ran_fails() -> None:
    row = only(rows_of("answers", GateRules(), compared=()))
    assert (row.got, row.verdict) == ("it was run in no runtime", FAIL)


def test_every_runtime_asked_for_that_takes_the_format_must_answer() -> None:
    asked = GateRules(runtimes=("tensorflow", "tfserving-grpc", "tflite"))
    compared = [drift("saved-model", "tensorflow", 120.0)]
    rows = rows_of("answers", asked, [artifact("saved-model")], compared)
    assert [(row.runtime, row.verdict, row.got) for row in rows] == [
        ("tensorflow", PASS, "answers"),
        ("tfserving-grpc", FAIL, "it was not run"),
    ]


@pytest.mark.parametrize(
    ("asked", "ran_on", "verdict"),
    [
        ("cuda", "cuda:0", PASS),
        ("cuda", "cpu", FAIL),
        ("cuda:1", "cuda:1", PASS),
        ("cuda:1", "cuda:0", FAIL),
        ("cpu", "cpu", PASS),
        (None, "cuda:0", PASS),
    ],
)
def test_what_ran_elsewhere_than_asked_fails(asked: str | None, ran_on: str, verdict: Verdict) -> None:
    timed = [latency("onnx", "onnxruntime", 1e-3, device=ran_on)]
    row = only(rows_of("answers", GateRules(device=asked), timed=timed))
    assert row.verdict is verdict
    assert row.got == ("answers" if verdict is PASS else f"it ran on {ran_on}")


def test_a_runtime_without_cuda_is_asked_for_the_cpu() -> None:
    timed = [latency("tflite", "tflite", 1e-3, device="cpu")]
    row = only(rows_of("answers", GateRules(device="cuda"), [artifact("tflite")], (), timed))
    assert (row.verdict, row.limit) == (PASS, "answers on cpu")


def test_what_did_not_run_is_judged_once() -> None:
    timed = [latency("onnx", "onnxruntime", None, batch=batch, doubts=("died",)) for batch in (1, 8)]
    rules = GateRules(latency_ratio=1.0, latency_p99=0.01, sqnr_db=60.0)
    found = gate(rules, ONNX, [silent(AGREES[0])], timed)
    assert [row.rule for row in found] == ["answers"]


def test_what_did_not_run_passes_nothing_where_answering_is_not_asked() -> None:
    timed = [latency("onnx", "onnxruntime", None, doubts=("died",))]
    found = gate(
        GateRules(answers=False, latency_ratio=1.0, latency_p99=0.01, sqnr_db=60.0), ONNX, [silent(AGREES[0])], timed
    )
    assert {row.rule: row.verdict for row in found} == {
        "drift": FAIL, "sqnr_db": OPEN, "latency_ratio batch=1": OPEN, "latency_p99 batch=1": OPEN,
    }  # fmt: skip


def test_rows_of_the_reference_are_not_judged() -> None:
    timed = [latency("source", "torch", 1e-3, ratio=3.0, ci95=(2.9, 3.1))]
    found = gate(GateRules(latency_ratio=1.0), ONNX, AGREES, timed)
    assert {row.artifact for row in found} == {"onnx"}


def test_rows_come_in_the_order_of_the_artifacts() -> None:
    artifacts = [artifact("tflite"), artifact("onnx")]
    compared = [*AGREES, drift("tflite", "tflite", 100.0)]
    found = gate(GateRules(size=10), artifacts, compared, ())
    assert [row.artifact for row in found] == ["tflite"] * 3 + ["onnx"] * 3


def row_of(verdict: Verdict) -> GateRow:
    return GateRow("drift", 60.0, 50.0, verdict, "onnx", None)


@pytest.mark.parametrize(
    ("rows", "status", "expected"),
    [
        ([PASS], Status.VERIFIED, (PASS, Exit.PASS)),
        ([PASS], Status.DEGRADED, (PASS, Exit.PASS)),
        ([], Status.VERIFIED, (PASS, Exit.PASS)),
        ([PASS, OPEN], Status.VERIFIED, (OPEN, Exit.INCONCLUSIVE)),
        ([OPEN, FAIL, PASS], Status.VERIFIED, (FAIL, Exit.FAIL)),
        ([PASS], Status.UNVERIFIED, (OPEN, Exit.INCONCLUSIVE)),
        ([PASS], Status.FAILED, (FAIL, Exit.FAIL)),
        ([OPEN], Status.FAILED, (FAIL, Exit.FAIL)),
    ],
)
def test_fail_goes_before_inconclusive_before_pass(
    rows: list[Verdict], status: Status, expected: tuple[Verdict, Exit]
) -> None:
    assert verdict_of([row_of(one) for one in rows], [artifact("onnx", status=status)]) == expected


def test_no_evidence_is_no_pass() -> None:
    assert verdict_of([], []) == (OPEN, Exit.INCONCLUSIVE)


def tried(*statuses: str) -> ArtifactRow:
    routes = tuple(TriedRow((f"r{at}",), RouteStatus(one), f"because {one}") for at, one in enumerate(statuses))
    return replace(artifact("tflite", None), tried=routes)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (("failed",), Exit.TOOLCHAIN),
        (("missing", "failed"), Exit.TOOLCHAIN),
        (("not tried",), Exit.TOOLCHAIN),
        ((), Exit.TOOLCHAIN),
        (("wrong",), Exit.FAIL),
        (("failed", "wrong"), Exit.FAIL),
    ],
)
def test_only_a_target_with_no_route_left_is_the_toolchains_failure(statuses: tuple[str, ...], expected: Exit) -> None:
    assert verdict_of([row_of(FAIL)], [artifact("onnx"), tried(*statuses)]) == (FAIL, expected)


def test_a_failed_route_beside_a_good_one_is_no_toolchain_failure() -> None:
    made = replace(artifact("onnx"), tried=(TriedRow(("a",), RouteStatus.FAILED, "died"), *artifact("onnx").tried))
    assert verdict_of([row_of(PASS)], [made]) == (PASS, Exit.PASS)


def test_why_not_made_tells_of_the_route_that_came_furthest() -> None:
    assert why_not_made(tried("missing", "failed", "not tried")) == "because failed"
    assert why_not_made(tried("failed", "wrong")) == "because wrong"
    assert why_not_made(tried()) == "no route leads to tflite"


@pytest.mark.parametrize(
    "bad",
    [
        {"metric_loss": -0.1},
        {"latency_ratio": float("nan")},
        {"latency_ratio": {"1": -1.0}},
        {"latency_p99": float("inf")},
        {"size": -1},
        {"sqnr_db": float("nan")},
    ],
)
def test_impossible_limits_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"limit|finite number"):
        GateRules(**bad)  # type: ignore[arg-type]


def test_a_tolerance_that_asks_for_nothing_says_so() -> None:
    compared = [drift("onnx", "onnxruntime", 90.0, tolerance=Tolerance(None, None))]
    assert only(rows_of("drift", GateRules(), compared=compared)).limit == "none"


def test_a_drift_that_fails_tells_what_the_wrong_answers_look_like() -> None:
    said = {("onnx", "onnxruntime"): "equals the reference after swapping axes 1 and 2"}
    compared = (drift("onnx", "onnxruntime", 3.0, verdict=Verdict.FAIL),)
    rows = gate(GateRules(), ONNX, compared, (), reasons=said)
    assert [row.got for row in rows if row.rule == "drift"] == ["equals the reference after swapping axes 1 and 2"]
    assert [row.verdict for row in rows if row.rule == "answers"] == [Verdict.PASS]  # it answered, wrongly


WILSON = (0.9640, 0.9924)  # of 354 right of 360


def floors(
    limit: float, interval: tuple[float, float] | None, rule: str = "metric_min", task: MetricRow | None = None
) -> dict[str, GateRow]:
    """The rows of one floor or ceiling, by artifact; source and copy have the same interval."""
    compared = [drift("onnx", "onnxruntime", 90.0, task=task or metric(0, 0, 0))]
    intervals = {("source", "torch"): interval, ("onnx", "onnxruntime"): interval} if interval else {}
    rules = GateRules(**{rule: limit})  # type: ignore[arg-type]
    return {row.artifact or "": row for row in gate(rules, ONNX, compared, (), intervals=intervals) if row.rule == rule}


@pytest.mark.parametrize(
    ("limit", "verdict", "needed"),
    [
        (0.9640, PASS, None),  # the interval ends on the floor, and keeps it
        (0.95, PASS, None),
        (0.97, OPEN, 840),
        (0.99, OPEN, 3400),
        (0.9924, OPEN, 1800),
        (0.9925, FAIL, None),
    ],
)
def test_a_floor_is_judged_by_the_interval_of_the_score(limit: float, verdict: Verdict, needed: int | None) -> None:
    rows = floors(limit, WILSON)
    assert list(rows) == ["source", "onnx"]
    for row in rows.values():
        assert (row.verdict, row.limit, row.got, row.unit, row.samples_needed) == (
            verdict,
            limit,
            0.9833,
            "share",
            needed,
        )
    assert (rows["source"].runtime, rows["onnx"].runtime) == (None, "onnxruntime")


@pytest.mark.parametrize(("limit", "verdict"), [(2.2, PASS), (2.1, OPEN), (1.8, OPEN), (1.79, FAIL)])
def test_a_ceiling_of_an_error_is_judged_from_the_other_side(limit: float, verdict: Verdict) -> None:
    error = MetricRow("mae", 2.0, 2.0, 0.0, (0.0, 0.0), "mm", higher_is_better=False)
    rows = floors(limit, (1.8, 2.2), "metric_max", error)
    assert {row.verdict for row in rows.values()} == {verdict}


@pytest.mark.parametrize(("limit", "verdict"), [(0.9833, PASS), (0.98, PASS), (0.99, FAIL)])
def test_a_score_without_an_interval_is_judged_as_it_is_and_says_so(limit: float, verdict: Verdict) -> None:
    for row in floors(limit, None).values():
        assert (row.verdict, row.got) == (verdict, "98.33 % (one value: its interval is not known)")


def test_the_copy_may_fail_a_floor_that_its_source_keeps() -> None:
    task = MetricRow("accuracy", 0.98, 0.90, -0.08, (-0.1, -0.06), "share")
    compared = [drift("onnx", "onnxruntime", 30.0, task=task)]
    intervals = {("source", "torch"): (0.97, 0.99), ("onnx", "onnxruntime"): (0.88, 0.92)}
    rows = gate(GateRules(metric_min=0.95), ONNX, compared, (), intervals=intervals)
    assert {row.artifact: row.verdict for row in rows if row.rule == "metric_min"} == {"source": PASS, "onnx": FAIL}
    assert verdict_of(rows, ONNX)[0] is FAIL


def test_a_floor_without_a_metric_decides_nothing() -> None:
    row = only(rows_of("metric_min", GateRules(metric_min=0.9)))
    assert (row.artifact, row.got, row.verdict) == ("onnx", "no metric", OPEN)
    unanswered = [silent(drift("onnx", "onnxruntime", None))]
    assert rows_of("metric_min", GateRules(metric_min=0.9), compared=unanswered) == []
    row = only(rows_of("metric_min", GateRules(metric_min=0.9, answers=False), compared=unanswered))
    assert (row.got, row.verdict) == ("no metric", OPEN)


@pytest.mark.parametrize(("limit", "verdict"), [(310_000_000, PASS), (309_999_999, FAIL)])
def test_peak_memory_is_kept_at_its_limit(limit: int, verdict: Verdict) -> None:
    row = only(rows_of("peak_memory", GateRules(peak_memory=limit), timed=[latency("onnx", "onnxruntime", 1e-3)]))
    assert (row.rule, row.got, row.verdict) == ("peak_memory batch=1", 310_000_000, verdict)
    unseen = [replace(latency("onnx", "onnxruntime", 1e-3), peak_rss_bytes=None)]
    row = only(rows_of("peak_memory", GateRules(peak_memory=limit), timed=unseen))
    assert (row.got, row.verdict) == ("not measured", OPEN)


def test_every_rule_takes_a_limit_for_each_target() -> None:
    artifacts = (artifact("pt2", 1000), artifact("onnx", 600), artifact("tflite", 600))
    pairs = {"pt2": "torch", "onnx": "onnxruntime", "tflite": "tflite"}
    compared = [drift(name, at, 50.0, task=metric(-0.02, -0.021, -0.019)) for name, at in pairs.items()]
    timed = [latency(name, at, 1e-3, ratio=0.9, ci95=(0.89, 0.91)) for name, at in pairs.items()]
    strict = {
        "sqnr_db": 60.0, "metric_loss": 0.01, "metric_min": 0.99, "latency_ratio": 0.5, "latency_p99": 1e-3,
        "size": 500, "size_ratio": 0.5, "peak_memory": 1_000_000,
    }  # fmt: skip
    for rule, limit in strict.items():
        for table in ({"onnx": limit}, {"onnx": limit, "default": 0.95 if rule == "metric_min" else limit * 1000}):
            if rule == "sqnr_db" and "default" in table:
                table["default"] = 1.0
            rules = GateRules(**{rule: table})  # type: ignore[arg-type]
            judged = [row for row in gate(rules, artifacts, compared, timed) if row.rule.startswith(rule)]
            failed = {row.artifact for row in judged if row.verdict is FAIL}
            assert failed == {"onnx"}, rule
            others = {row.artifact for row in judged} - {"onnx"}
            assert bool(others) == ("default" in table), rule
