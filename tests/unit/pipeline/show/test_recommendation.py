"""Which copy is recommended under a constraint, and the sentence that says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from transload.pipeline.result.doubt_kinds import DoubtKind
from transload.pipeline.result.gate import GateRules
from transload.pipeline.result.ratio import Comparison
from transload.pipeline.result.schema import ChoiceRow, LatencyRow, RunResult, Status, Verdict
from transload.pipeline.show.recommendation import ReleaseConstraint, cost_per_million, recommend

from . import samples

REFERENCE_S = 1e-3
NOTHING = ReleaseConstraint()


def row(
    name: str,
    runtime: str,
    ratio: float,
    *,
    batch: int = 1,
    half: float = 0.01,
    p99_most_s: float | None = 2e-3,
    comparison: Comparison = Comparison.FASTER,
) -> LatencyRow:
    """A timed row whose ratio is known within `half`."""
    timed = samples.latency(
        name, runtime, ratio * REFERENCE_S * batch, batch=batch, ratio=ratio, ci95=(ratio - half, ratio + half)
    )
    behind = timed.runtime if timed.server else "torch"
    bounds = None if p99_most_s is None else (p99_most_s / 2, p99_most_s)
    return replace(timed, reference=f"source in {behind}", comparison=comparison, p99_ci95=bounds)


def run_of(rows: Sequence[LatencyRow], *, statuses: dict[str, Status] | None = None) -> RunResult:
    """A run of onnx, torchscript and tflite:int8 with these rows beside those of the source."""
    sizes = {"onnx": 150_000, "torchscript": 190_000, "tflite:int8": 45_000}
    artifacts = tuple(
        samples.artifact(name, size, (statuses or {}).get(name, Status.VERIFIED)) for name, size in sizes.items()
    )
    exact, lossy = samples.metric(0, 0, 0), samples.metric(-0.0042, -0.0083, -0.0008)
    drift = (
        samples.drift("onnx", "onnxruntime", 128.4, task=exact),
        samples.drift("onnx", "tfserving-grpc", 128.4, task=exact),
        samples.drift("torchscript", "torchscript", None, task=exact),
        samples.drift("tflite:int8", "tflite", 31.7, tolerance=samples.REDUCED, task=lossy),
    )
    batches = sorted({timed.batch for timed in rows})
    sources = tuple(
        replace(samples.latency("source", "torch", REFERENCE_S * batch, batch=batch, ci95=(1.0, 1.0)),
                reference="source in torch")
        for batch in batches
    )  # fmt: skip
    run = replace(samples.result(), artifacts=artifacts, drift=drift, latency=(*sources, *rows))
    return samples.judged(run, GateRules(answers=False))


def chosen(run: RunResult, constraint: ReleaseConstraint = NOTHING) -> ChoiceRow:
    found = recommend(run, constraint)
    assert found is not None
    (choice,) = found.choices
    return choice


FAST, SLOWER, SLOWEST = (
    row("onnx", "onnxruntime", 0.4),
    row("torchscript", "torchscript", 0.8),
    row("tflite:int8", "tflite", 1.4, comparison=Comparison.SLOWER),
)


def test_the_fastest_verified_copy_is_recommended_with_its_reason() -> None:
    choice = chosen(run_of([FAST, SLOWER, SLOWEST]))
    assert (choice.where, choice.artifact, choice.runtime, choice.batch, choice.settled) == (
        "in process", "onnx", "onnxruntime", 1, True,
    )  # fmt: skip
    assert choice.reason == (
        "onnx in onnxruntime at batch 1: fastest of 3 verified (p99 at most 2 ms), faster than source in torch "
        "(0.40\u00d7), loses nothing of accuracy"
    )
    assert [(other.artifact, other.batch, other.reason) for other in choice.runners_up] == [
        ("torchscript", 1, "a sample takes 2.00\u00d7 the time"),
        ("tflite:int8", 1, "a sample takes 3.50\u00d7 the time"),
    ]


def test_copies_that_keep_the_bound_and_the_loss_alone_count() -> None:
    rows = [replace(FAST, p99_ci95=(5e-3, 12e-3)), SLOWER, replace(SLOWEST, ratio_to_reference=0.1)]
    choice = chosen(run_of(rows), ReleaseConstraint(latency_bound_s=10e-3, metric_loss_points=0.5))
    assert choice.reason.startswith(
        "torchscript in torchscript at batch 1: the only verified copy that keeps 10 ms (p99 at most 2 ms), "
    )
    assert [(other.artifact, other.batch, other.reason) for other in choice.runners_up] == [
        ("onnx", None, "its p99 may be 12 ms at batch 1"),
        (
            "tflite:int8",
            None,
            "it may lose 0.83 pp of accuracy, and 0.50 pp are allowed; about 17,000 samples would decide it",
        ),
    ]


def test_the_loss_is_in_points_and_by_the_end_of_its_interval() -> None:
    run = run_of([replace(SLOWEST, ratio_to_reference=0.1, ratio_ci95=(0.09, 0.11))])
    assert chosen(run, ReleaseConstraint(metric_loss_points=0.83)).artifact == "tflite:int8"
    assert chosen(run, ReleaseConstraint(metric_loss_points=0.82)).artifact is None
    assert "accuracy \u22120.42 pp [\u22120.83, \u22120.08]" in chosen(run).reason


def test_a_copy_whose_numbers_agree_loses_what_was_measured() -> None:
    run = run_of([FAST])
    few = tuple(replace(drift, metric=samples.metric(0, -0.0051, 0.0051)) for drift in run.drift)
    assert chosen(replace(run, drift=few), ReleaseConstraint(metric_loss_points=0.5)).artifact == "onnx"
    worse = tuple(replace(drift, metric=samples.metric(-0.006, -0.009, 0.001)) for drift in run.drift)
    choice = chosen(replace(run, drift=worse), ReleaseConstraint(metric_loss_points=0.5))
    assert choice.runners_up[0].reason == "it loses 0.60 pp of accuracy, and 0.50 pp are allowed"


def test_under_a_bound_the_most_samples_a_second_count_over_all_batches() -> None:
    rows = [FAST, row("onnx", "onnxruntime", 0.3, batch=8, p99_most_s=8e-3),
            row("torchscript", "torchscript", 0.2, batch=8, p99_most_s=30e-3)]  # fmt: skip
    choice = chosen(run_of(rows), ReleaseConstraint(latency_bound_s=10e-3))
    assert (choice.artifact, choice.batch) == ("onnx", 8)
    assert chosen(run_of(rows)).batch == 1
    late = chosen(run_of(rows), ReleaseConstraint(latency_bound_s=5e-3))
    assert (late.artifact, late.batch) == ("onnx", 1)


def test_a_tie_goes_to_the_smaller_drift_and_is_said() -> None:
    choice = chosen(run_of([replace(FAST, ratio_ci95=(0.3, 0.5)), row("torchscript", "torchscript", 0.42)]))
    assert (choice.artifact, choice.settled) == ("torchscript", False)
    assert "nearest to the model of the 2 fastest, of 2 verified" in choice.reason
    assert choice.remarks == ("the samples do not tell it apart from onnx in onnxruntime",)
    assert choice.runners_up[0].reason == "as fast, and further from the model (128 dB)"


def test_two_batches_of_one_copy_are_one_of_the_fastest() -> None:
    wide = [replace(row("onnx", "onnxruntime", 0.4, batch=batch), ratio_ci95=(0.3, 0.5)) for batch in (1, 8)]
    copies = [*wide, *(row("torchscript", "torchscript", 0.42, batch=batch) for batch in (1, 8))]
    choice = chosen(run_of(copies), ReleaseConstraint(latency_bound_s=1.0))
    assert "nearest to the model of the 2 fastest, of 2 verified that keep 1 s" in choice.reason
    assert len(choice.runners_up) == 1


def test_a_tie_of_equal_drift_goes_to_the_smaller_file() -> None:
    run = run_of([FAST, row("torchscript", "torchscript", 0.4)])
    alike = tuple(replace(drift, sqnr_db=128.0, max_abs=1e-6) for drift in run.drift)
    choice = chosen(replace(run, drift=alike))
    assert choice.artifact == "onnx"
    assert "smallest of the 2 fastest, of 2 verified" in choice.reason
    assert choice.runners_up[0].reason == "as fast, and larger (190 KB)"


def test_an_inconclusive_ratio_is_never_called_faster() -> None:
    open_row = replace(FAST, comparison=Comparison.INCONCLUSIVE, processes=3)
    open_row = replace(open_row, comparison_interval=(0.3, 1.2))  # the 95 % interval lies beside 1, and does not decide
    choice = chosen(run_of([open_row, SLOWER]))
    assert not choice.settled
    said = "whether it is faster than source in torch is not settled after 3 processes "
    said += "(0.40\u00d7 [0.30, 1.20] at 99.875 %)"
    assert choice.remarks == (f"{said}: measure longer (--budget)",)
    assert "faster than" not in choice.reason


def test_without_an_interval_the_median_decides_and_that_is_said() -> None:
    choice = chosen(run_of([replace(FAST, ratio_ci95=None), replace(SLOWER, ratio_ci95=None)]))
    assert (choice.artifact, choice.settled) == ("onnx", False)
    assert "fastest by its median of 2 verified (p99 at most 2 ms)" in choice.reason
    assert choice.remarks == ("too few processes to tell it apart from the others",)


@pytest.mark.parametrize("status", [Status.UNVERIFIED, Status.FAILED, Status.DEGRADED])
def test_only_verified_copies_are_recommended(status: Status) -> None:
    run = run_of([FAST, SLOWER], statuses={"onnx": status})
    choice = chosen(run)
    assert choice.artifact == "torchscript"
    assert choice.runners_up[-1].reason == f"it is {status}"


def test_what_the_gate_fails_or_leaves_open_is_not_recommended() -> None:
    slow = replace(FAST, ratio_ci95=(0.3, 0.9))
    for limit, words in ((0.2, "the gate fails it: latency ratio at batch 1: 0.40\u00d7, limit 0.20\u00d7"),
                         (0.5, "the gate cannot decide: latency ratio at batch 1")):  # fmt: skip
        run = samples.judged(run_of([slow]), GateRules(latency_ratio=limit, answers=False))
        choice = chosen(run)
        assert choice.artifact is None
        assert choice.reason.startswith("none, because no copy of 1 may be released: onnx in onnxruntime: ")
        assert words in choice.reason


def test_a_failed_rule_is_named_before_one_that_is_open() -> None:
    run = samples.judged(run_of([FAST]), GateRules(latency_ratio=0.2, answers=False))
    is_open = next(
        replace(rule, verdict=Verdict.INCONCLUSIVE, artifact="onnx")
        for rule in run.gate
        if rule.verdict is Verdict.FAIL
    )
    run = replace(run, gate=(is_open, *run.gate))
    assert "the gate fails it: latency ratio at batch 1" in chosen(run).reason
    unverified = tuple(replace(entry, status=Status.UNVERIFIED) for entry in run.artifacts)
    assert "the gate fails it: latency ratio at batch 1" in chosen(replace(run, artifacts=unverified)).reason


def test_a_runtime_in_which_nothing_was_compared_is_not_recommended() -> None:
    choice = chosen(run_of([row("onnx", "openvino", 0.1), SLOWER]))
    assert choice.artifact == "torchscript"
    assert choice.runners_up[-1].reason == "its answers were not compared in openvino"


def test_a_p99_without_an_interval_keeps_no_bound() -> None:
    choice = chosen(run_of([replace(FAST, p99_ci95=None)]), ReleaseConstraint(latency_bound_s=1.0))
    assert choice.artifact is None
    assert "its p99 is not bounded by 2000 calls: measure longer (--budget)" in choice.reason


def test_where_none_keeps_the_bound_the_nearest_is_named() -> None:
    rows = [replace(FAST, p99_ci95=(5e-3, 12e-3)), replace(SLOWER, p99_ci95=(5e-3, 11e-3))]
    choice = chosen(run_of(rows), ReleaseConstraint(latency_bound_s=10e-3))
    assert choice.reason == (
        "none, because no verified copy keeps the bound: torchscript in torchscript: its p99 may be 11 ms at batch 1"
    )


def test_served_copies_and_those_in_process_are_recommended_apart() -> None:
    served = row("onnx", "tfserving-grpc", 0.9)
    source = replace(samples.latency("source", "tfserving-grpc", 2e-3, ci95=(1.0, 1.0)), reference=served.reference)
    run = run_of([FAST, served])
    found = recommend(replace(run, latency=(*run.latency, source)), ReleaseConstraint())
    assert found is not None
    assert [(choice.where, choice.artifact) for choice in found.choices] == [
        ("in process", "onnx"), ("served by tfserving-grpc", "onnx"),
    ]  # fmt: skip
    assert "faster than source in tfserving-grpc" in found.choices[1].reason


def test_a_doubt_that_its_speed_is_wrong_is_said() -> None:
    doubted = replace(
        FAST,
        doubts=("other programs used 1.6 of 2 cores: measure on a quiet machine", "a p99 is a guess"),
        doubt_kinds=(DoubtKind.OTHER_LOAD, DoubtKind.FEW_CALLS),
    )
    words = "in doubt: other programs used 1.6 of 2 cores: measure on a quiet machine"
    assert chosen(run_of([doubted])).remarks == (words,)
    mild = replace(doubted, doubts=doubted.doubts[1:], doubt_kinds=doubted.doubt_kinds[1:])
    assert chosen(run_of([mild])).remarks == ()


def test_the_cost_of_a_million_samples() -> None:
    assert cost_per_million(3.6, 1000.0) == pytest.approx(1.0)
    assert cost_per_million(None, 1000.0) is None
    assert cost_per_million(3.6, None) is None
    assert cost_per_million(3.6, 0.0) is None
    choice = chosen(run_of([FAST]), ReleaseConstraint(price_per_hour=0.36))
    assert choice.cost_per_million == pytest.approx(0.36 / (FAST.throughput_per_s or 0) / 3600 * 1e6)


def test_a_run_that_timed_no_copy_recommends_nothing() -> None:
    assert recommend(samples.empty(), ReleaseConstraint()) is None
    assert recommend(run_of([]), ReleaseConstraint()) is None
