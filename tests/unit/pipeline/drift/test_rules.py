"""From numbers to verdicts and statuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from transload.pipeline.drift.noise_floor import UNSTEADY_DB, Cause, Limit
from transload.pipeline.drift.numbers.numeric import Drift
from transload.pipeline.drift.rules import Rule, judge
from transload.pipeline.plan.artifact_rows import status_of
from transload.pipeline.result.schema import DriftRow, MetricRow, Status, Tolerance, Verdict

CLOSE = Drift(1e-6, 1e-7, 1.0, {"y": 120.0}, 0, 0, 0, 100, True, ())


def metric(low: float, high: float) -> dict[str, Any]:
    sides = {"name": "accuracy", "reference": 0.99, "candidate": 0.98, "delta": (low + high) / 2, "ci95": [low, high]}
    return {**sides, "unit": "share", "higher_is_better": True}


@pytest.mark.parametrize(
    ("change", "verdict", "reason"),
    [
        ({}, "pass", None),
        ({"by_output": {"y": 60.0}}, "pass", None),
        ({"by_output": {}}, "pass", None),
        ({"by_output": {"y": 59.9}}, "fail", "output y agrees to 59.9 dB, below 60 dB"),
        ({"small_db": 20.0, "smallest": "z"}, "pass", None),
        (
            {"small_db": 19.9, "smallest": "z"},
            "fail",
            "output z agrees to 19.9 dB in its small values, below 20 dB: large ones beside them hide that",
        ),
        (
            {"non_finite": 1, "least_finite": "z"},
            "fail",
            "1 of 100 elements are NaN or infinite on one side only, first in output z",
        ),
        (
            {"non_finite": 3, "least_finite": "z", "undefined": 3},
            "fail",
            "3 of 100 elements are NaN or infinite on one side only, first in output z, all of them in the "
            "model itself: guard what makes them, as a division by what may be 0 does",
        ),
        ({"mismatches": 1, "exact_elements": 50}, "fail", "1 of 50 integers differ"),
        (
            {"varies": False},
            "inconclusive",
            "the reference's outputs do not vary over the samples: no evidence; "
            "give samples to which they do: --data FILE.npz",
        ),
        ({"varies": False, "by_output": {"y": 3.0}}, "fail", "output y agrees to 3.0 dB, below 60 dB"),
    ],
)
def test_an_fp32_copy_is_held_to_its_numbers(change: dict[str, Any], verdict: str, reason: str | None) -> None:
    found = judge(replace(CLOSE, **change), Rule.of("fp32", allowed_loss=0.01), metric(-0.5, -0.4))
    assert (found.verdict, found.reason) == (verdict, reason)
    assert found.tolerance == {"sqnr_db": 60.0, "metric_loss": None}


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.01, 0.0, "pass"),  # an interval that ends on the limit keeps it
        (-0.005, -0.001, "pass"),
        (0.001, 0.005, "pass"),
        (-0.011, 0.0, "inconclusive"),
        (-0.5, 0.5, "inconclusive"),
        (-0.02, -0.01, "inconclusive"),
        (-0.02, -0.0101, "fail"),
    ],
)
def test_a_reduced_precision_is_held_to_the_metric(low: float, high: float, verdict: str) -> None:
    found = judge(replace(CLOSE, by_output={"y": 5.0}), Rule.of("int8", allowed_loss=0.01), metric(low, high))
    assert found.verdict == verdict
    assert found.tolerance == {"sqnr_db": None, "metric_loss": 0.01}


def test_the_sentence_of_a_metric_holds_the_numbers() -> None:
    found = judge(CLOSE, Rule.of("int8", allowed_loss=0.01), metric(-0.04, -0.02))
    assert found.reason == "accuracy changed by -3.00 pp [-4.00, -2.00], beyond the allowed loss of 1.00 pp"
    spans = judge(CLOSE, Rule.of("int8", allowed_loss=0.025), {**metric(-0.04, -0.02), "samples_needed": 900})
    assert spans.reason == (
        "accuracy changed by -3.00 pp [-4.00, -2.00], which spans the allowed loss of 2.50 pp: "
        "about 900 samples would decide it"
    )


def test_a_reduced_precision_never_differs_in_its_finite_pattern() -> None:
    found = judge(replace(CLOSE, non_finite=2), Rule.of("fp16", allowed_loss=0.5), metric(0.0, 0.1))
    assert found.verdict == "fail"


@pytest.mark.parametrize(
    ("precision", "sqnr_db", "verdict"),
    [("fp16", 40.0, "pass"), ("fp16", 39.9, "fail"), ("int8", 10.0, "pass"), ("int8-dynamic", 9.9, "fail")],
)
def test_without_a_metric_a_reduced_precision_has_a_floor(precision: str, sqnr_db: float, verdict: str) -> None:
    found = judge(replace(CLOSE, by_output={"y": sqnr_db}), Rule.of(precision, allowed_loss=0.01), None)
    assert found.verdict == verdict
    assert found.tolerance["metric_loss"] is None
    assert found.tolerance["sqnr_db"] in (40.0, 10.0)


def test_a_given_tolerance_replaces_the_default() -> None:
    assert judge(replace(CLOSE, by_output={"y": 59.0}), Rule.of("fp32", sqnr_db=50.0)).verdict == "pass"
    assert judge(CLOSE, Rule.of("fp32", sqnr_db=130.0)).verdict == "fail"


@pytest.mark.parametrize(("wrong", "verdict"), [(10, "pass"), (11, "fail")])
def test_without_a_metric_a_tenth_of_integers_may_change(wrong: int, verdict: str) -> None:
    drift = replace(CLOSE, mismatches=wrong, exact_elements=100, by_output={"y": 1.0})
    assert judge(drift, Rule.of("int8")).verdict == verdict


CAUSE = Cause.FLOAT64


@pytest.mark.parametrize(("noise_db", "verdict"), [(30.0, "pass"), (29.9, "fail")])
def test_a_column_at_its_limit_keeps_it(noise_db: float, verdict: str) -> None:
    rule = replace(Rule.of("fp32"), limits={"y[0]": Limit(30.0, UNSTEADY_DB, CAUSE)})
    assert judge(replace(CLOSE, columns={"y[0]": noise_db}), rule).verdict == verdict


def test_a_column_has_a_limit_where_its_floor_leaves_room_for_one() -> None:
    rule = replace(Rule.of("fp32"), limits={"a": Limit(30.0, UNSTEADY_DB, CAUSE), "b": Limit(30.0, 0.0, CAUSE)})
    assert [rule.column_limit_db(column) for column in "abc"] == [30.0, None, None]


@pytest.mark.parametrize(
    ("floor_db", "noise_db", "verdict"),
    [
        (UNSTEADY_DB - 0.1, 59.9, "inconclusive"),
        (UNSTEADY_DB - 0.1, 60.0, "pass"),  # as close as any copy has to come
        (UNSTEADY_DB, 59.9, "pass"),
    ],
)
def test_a_model_that_multiplies_its_rounding_is_no_evidence_below_the_common_limit(
    floor_db: float, noise_db: float, verdict: str
) -> None:
    rule = replace(Rule.of("fp32"), limits={"y": Limit(20.0, floor_db, CAUSE)})
    assert judge(replace(CLOSE, by_output={"y": noise_db}), rule).verdict == verdict


def row(verdict: Verdict, ci95: tuple[float, float] | None = None, **own: Any) -> DriftRow:
    held = MetricRow("accuracy", 0.99, 0.98, -0.01, ci95, **own) if ci95 else None
    return DriftRow("onnx", "onnxruntime", 1, 20, 0.0, 0.0, 1.0, None, 0, Tolerance(60.0, None), verdict, held)


PASS, FAIL, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([], Status.UNVERIFIED),
        ([row(PASS)], Status.VERIFIED),
        ([row(PASS), row(FAIL), row(OPEN)], Status.FAILED),
        ([row(PASS), row(OPEN)], Status.UNVERIFIED),
        ([row(PASS, (-0.02, -0.001)), row(PASS)], Status.DEGRADED),
        ([row(PASS, (-0.02, 0.0))], Status.VERIFIED),
        ([row(PASS), replace(row(PASS), lost="with x NaN in one place: no number")], Status.VERIFIED),
        ([row(PASS, (-0.02, -0.001)), row(OPEN)], Status.UNVERIFIED),
        ([row(PASS, (0.001, 0.002))], Status.VERIFIED),
        ([row(PASS, (0.001, 0.002), higher_is_better=False)], Status.DEGRADED),
        ([row(PASS, (-2e-8, -1e-8))], Status.VERIFIED),  # rounding
        ([row(PASS, (-0.02, -0.001), p_value=0.04)], Status.DEGRADED),
        ([row(PASS, (-0.02, -0.001), p_value=0.06)], Status.VERIFIED),
        ([row(PASS, (-0.02, -0.001), p_value=0.05)], Status.VERIFIED),
        ([row(PASS, (-0.02, -1e-6 * 0.99))], Status.VERIFIED),  # what float32 leaves of it, and no more
        ([row(PASS, (-0.02, -1.01e-6 * 0.99))], Status.DEGRADED),
    ],
)
def test_the_status_of_an_artifact(rows: list[DriftRow], status: Status) -> None:
    assert status_of(rows) is status
