"""One cause is one failure, however many rules, batches, copies and figures beside the baseline show it.

Runs are generated with causes planted in them, by the gate and the comparison themselves; then they are counted.
"""

from __future__ import annotations

import json
import random
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field, replace
from itertools import permutations

import pytest

from transload.pipeline.plan.artifact_rows import status_of
from transload.pipeline.result.compare.no_worse import no_worse_rows
from transload.pipeline.result.compare.run_comparison import compare_runs
from transload.pipeline.result.facts import FactClaim, own_facts, told_elsewhere
from transload.pipeline.result.gate import GateRules, gate, verdict_of
from transload.pipeline.result.schema import ArtifactRow, DriftRow, LatencyRow, MetricRow, RunResult, Verdict
from transload.pipeline.show import view
from transload.pipeline.show.ci.ci_rows import CiOutcome, CiRow, count_once, rows_of_comparison, rows_of_run
from transload.pipeline.show.ci.junit_file import junit_text
from transload.pipeline.show.ci.sarif_file import sarif_text
from transload.pipeline.show.ci.source_places import SourcePlaces

from ..show import samples

COPIES = {"onnx": ("onnxruntime", "openvino"), "tflite": ("tflite",), "tflite:int8": ("tflite",)}
GOOD, BAD = 0.98, 0.75
SOURCE_IS_WORSE, NOT_MADE, TOO_LARGE = "the source is worse", "not made", "too large"
DEPARTS, LOSES, SILENT, SLOW, UNDECIDED = "departs", "loses", "silent", "slow", "undecided"


@dataclass
class Plan:
    """What is wrong with a run; its number of entries is the number of facts."""

    source: float = GOOD
    copies: dict[str, str] = field(default_factory=dict)  # by name
    pairs: dict[tuple[str, str], str] = field(default_factory=dict)  # by name and runtime

    @property
    def failures(self) -> set[tuple[str, str | None]]:
        worse: set[tuple[str, str | None]] = {("source", None)} if self.source == BAD else set()
        pairs = {pair for pair, cause in self.pairs.items() if cause != UNDECIDED}
        return worse | pairs | {(name, None) for name in self.copies}


def plan_of(seed: int) -> Plan:
    """Plant each cause by chance."""
    chance = random.Random(seed)  # noqa: S311  (no secret)
    plan = Plan(chance.choice([GOOD, BAD]))
    for name, runtimes in COPIES.items():
        if cause := chance.choice([None, None, None, NOT_MADE, TOO_LARGE]):
            plan.copies[name] = cause
        for runtime in runtimes if cause != NOT_MADE else ():
            causes = (None, SILENT, SLOW, *((LOSES, UNDECIDED) if "int8" in name else (DEPARTS,)))
            if cause := chance.choice(causes):
                plan.pairs[name, runtime] = cause
    return plan


def drift_of(name: str, runtime: str, source: float, cause: str | None) -> list[DriftRow]:
    """Return the rows of two batch sizes, the larger one with the metric."""
    loss = {LOSES: 0.2, UNDECIDED: 0.01}.get(cause or "", 0.0)
    interval = {LOSES: (-0.25, -0.15), UNDECIDED: (-0.05, 0.03)}.get(cause or "", (0.0, 0.0))
    metric = MetricRow("accuracy", source, source - loss, -loss, interval, "share")
    verdict = {DEPARTS: Verdict.FAIL, LOSES: Verdict.FAIL, UNDECIDED: Verdict.INCONCLUSIVE}.get(
        cause or "", Verdict.PASS
    )
    limit = samples.REDUCED if "int8" in name else samples.FP32
    sqnr = 20.0 if cause == DEPARTS else 100.0
    rows = [
        samples.drift(name, runtime, sqnr, tolerance=limit, verdict=verdict, task=metric),
        samples.drift(name, runtime, sqnr, tolerance=limit, verdict=verdict, batch=1),
    ]
    return [samples.silent(row) for row in rows] if cause == SILENT else rows


def run_of(plan: Plan, rules: GateRules, *, is_timed: bool = True) -> RunResult:
    """Return a run that the gate has judged."""
    drift: list[DriftRow] = []
    artifacts: list[ArtifactRow] = []
    timed: list[LatencyRow] = [samples.latency("source", "torch", 1e-3, ci95=(1.0, 1.0))] if is_timed else []
    for name, runtimes in COPIES.items():
        if plan.copies.get(name) == NOT_MADE:
            artifacts.append(samples.artifact(name, None))
            continue
        own = [row for at in runtimes for row in drift_of(name, at, plan.source, plan.pairs.get((name, at)))]
        size = 9_000_000 if plan.copies.get(name) == TOO_LARGE else 100_000
        artifacts.append(samples.artifact(name, size, status_of(own)))
        drift += own
        for runtime in runtimes if is_timed else ():
            cause = plan.pairs.get((name, runtime))
            ratio = 9.0 if cause == SLOW else 0.5
            p50 = None if cause == SILENT else ratio * 1e-3
            timed.append(samples.latency(name, runtime, p50, ratio=ratio, ci95=(ratio, ratio), doubts=("it died",)))
    rows = gate(rules, artifacts, drift, timed)
    base = replace(samples.result(), artifacts=tuple(artifacts), drift=tuple(drift), latency=tuple(timed), gate=rows)
    verdict, status = verdict_of(rows, artifacts)
    return replace(base, smallest=(), left_out=(), located=(), verdict=verdict, exit_code=int(status))


def with_baseline(run: RunResult, rules: GateRules, large: Plan, *, judges: bool) -> RunResult:
    """Compare the run with one in which all was well (but for the sizes, which `large` has too)."""
    before = run_of(
        Plan(copies={name: TOO_LARGE for name in COPIES if large.copies.get(name) == TOO_LARGE}), rules, is_timed=False
    )
    comparison = compare_runs(before, run)
    rows = no_worse_rows(comparison, run) if judges else ()
    return replace(run, baseline=comparison, gate=(*run.gate, *rows))


def counted(rows: list[CiRow], outcome: CiOutcome) -> int:
    return sum(row.outcome is outcome for row in rows)


RULES = {
    "plain": GateRules(latency_ratio=6.0, size=1_000_000),
    "strict": GateRules(
        latency_ratio=6.0, size=1_000_000, sqnr_db=50, metric_loss=0.02, metric_min=0.9, require_verified=True
    ),
}


@pytest.mark.parametrize("rules", RULES.values(), ids=list(RULES))
@pytest.mark.parametrize("baseline", ["none", "judges", "compares"])
@pytest.mark.parametrize("seed", range(25))
def test_as_many_failures_are_counted_as_facts_were_planted(seed: int, baseline: str, rules: GateRules) -> None:
    plan = plan_of(seed)
    run = run_of(plan, rules)
    if baseline != "none":
        run = with_baseline(run, rules, plan, judges=baseline == "judges")
    facts = set(plan.failures)
    if not any(row.metric for row in run.drift) or (baseline == "none" and not rules.metric_min):
        facts.discard(("source", None))  # nothing says what it is, or what it should be
    open_pairs = {pair for pair, cause in plan.pairs.items() if cause == UNDECIDED}
    facts |= open_pairs if baseline != "none" else set()  # that passed before, which is a failure
    undecided = len(open_pairs - facts)
    rows = count_once(rows_of_run(run, SourcePlaces()))
    failed = [row.message for row in rows if row.outcome is CiOutcome.FAIL]
    assert len(failed) == len(facts), failed
    assert counted(rows, CiOutcome.INCONCLUSIVE) == undecided
    root = ET.fromstring(junit_text(rows, "run"))  # noqa: S314  (it was written here)
    assert (root.get("failures"), root.get("errors")) == (str(len(facts)), str(undecided))
    assert len(json.loads(sarif_text(rows, "run", 1))["runs"][0]["results"]) == len(facts) + undecided
    counting = {f"{row.suite}: {row.name}" for row in rows if row.outcome is not CiOutcome.SKIPPED}
    assert all(
        row.message.partition("; counted in ")[2] in counting for row in rows if row.outcome is CiOutcome.SKIPPED
    )
    if baseline != "compares":  # the reports show the figures of a baseline that judges nothing in their own table
        findings = view.findings(run, {})
        assert {one.subject for one in findings if one.verdict is Verdict.FAIL} == {
            f"{name} in {runtime}" if runtime else name for name, runtime in facts
        }
        assert len(own_facts(run.gate)) == len(facts) + undecided


def test_a_row_that_repeats_a_fact_names_the_row_that_counts() -> None:
    run = run_of(Plan(pairs={("onnx", "openvino"): DEPARTS}), RULES["plain"])
    rows = {row.name: row for row in count_once(rows_of_run(run, SourcePlaces()))}
    repeated = [row for row in rows.values() if row.outcome is CiOutcome.SKIPPED]
    assert [row.name for row in repeated] == ["onnx", "onnx in openvino at batch 360", "onnx in openvino at batch 1"]
    assert all(row.message.endswith("; counted in gate: drift of onnx in openvino") for row in repeated)
    assert rows["drift of onnx in openvino"].outcome is CiOutcome.FAIL


def test_two_runs_tell_a_worse_source_once() -> None:
    plan = Plan(BAD, pairs={("tflite:int8", "tflite"): LOSES})
    run = with_baseline(run_of(plan, RULES["plain"]), RULES["plain"], plan, judges=False)
    assert run.baseline is not None
    rows = count_once(list(rows_of_comparison(run.baseline)))
    assert [row.name for row in rows if row.outcome is CiOutcome.FAIL] == [
        "metric of source", "metric drift of tflite:int8 in tflite",
    ]  # fmt: skip


def test_a_worse_source_of_one_model_says_nothing_of_anothers_copy() -> None:
    worse = [
        FactClaim("no_worse metric", "source", None, Verdict.FAIL, "a"),
        FactClaim("no_worse metric", "onnx", "onnxruntime", Verdict.FAIL, "b"),
    ]
    assert told_elsewhere(worse) == {}


def test_what_is_open_never_stands_for_what_fails() -> None:
    claims = [
        FactClaim(rule, "onnx", "onnxruntime", verdict)
        for rule, verdict in (("drift", Verdict.INCONCLUSIVE), ("sqnr_db", Verdict.FAIL), ("size", Verdict.FAIL))
    ]
    for order in permutations(claims):  # nor does the order of the rows matter
        assert told_elsewhere(order) == {claims[0]: claims[1]}
