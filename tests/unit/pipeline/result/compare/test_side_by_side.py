"""Artifacts measured side by side: budgets, verdicts, what is left out, and the gate's rules on a baseline."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from transload.models.errors import BadRequest, Exit
from transload.models.signature import Signature, parse_input
from transload.models.store import Stored
from transload.pipeline.commands.baseline import Baseline, judge_baseline, read_baseline
from transload.pipeline.commands.remeasure import ArtifactPair, OpenedArtifacts, open_artifacts, pair_up, remeasure
from transload.pipeline.measure.bench.latency_rows import About
from transload.pipeline.measure.bench.rounds import Pair, ProcessSamples, Series
from transload.pipeline.measure.bench_stage import Bench, Measurements
from transload.pipeline.measure.bench_subject import BenchSubject
from transload.pipeline.measure.collected_series import BenchGoal
from transload.pipeline.options.request import GateSection, RunRequest, read_request
from transload.pipeline.result.compare.change_records import Change, CompareMethod, FigureChange, FigureKind
from transload.pipeline.result.compare.compare_limits import CompareLimits
from transload.pipeline.result.compare.release_metric import Release
from transload.pipeline.result.compare.run_comparison import compare_runs, decide
from transload.pipeline.result.compare.side_by_side import SideBySide
from transload.pipeline.result.schema import GateRow, RunResult, Verdict, to_json
from transload.pipeline.show.compare_page import ratio_plots, render_compare_page
from transload.pipeline.show.compare_text import render_compare_markdown, terminal_lines
from transload.serving.runtimes.runtime_table import RUNTIMES

from ...show import samples
from .test_run_comparison import small

STORED = Stored("", "", Path(), {}, Path(), 0.0, cached=True)
SIGNATURE = Signature((parse_input("x=float32[batch,3]"),), (parse_input("y=float32[batch,2]"),))


def pair(name: str = "onnx", runtime: str = "onnxruntime") -> ArtifactPair:
    return ArtifactPair(name, RUNTIMES[runtime], STORED, STORED)


def series(subject: Pair, seconds: float, processes: int, lost: str | None = None) -> Series:
    """Sets of processes that scatter by a thousandth."""
    rounds = {
        number: ProcessSamples(rounds={0: np.full(5, seconds * (1 + 0.001 * (number % 2)))})
        for number in range(processes)
    }
    return Series(subject, 1, "cpu", {} if lost else rounds, lost=lost)


@dataclass
class FakeBench:
    """Measures by a script: seconds of a call of the new artifact over the old one's, and how long a set takes."""

    ratios: Mapping[str, float]
    set_s: float = 10.0
    processes: int = 3
    lost: str = ""
    now: float = 0.0

    def __post_init__(self) -> None:
        self.goals: list[BenchGoal] = []

    def measure(self, subjects: Sequence[BenchSubject], goal: BenchGoal) -> Measurements:
        assert goal.references == {subject.pair: subjects[0].pair for subject in subjects}
        self.goals.append(goal)
        sets = min(self.processes, max(1, int(goal.most_s // self.set_s)) if goal.most_s < 1e9 else self.processes)
        self.now += sets * self.set_s
        old, new = (subject.pair for subject in subjects)
        name = new[0].partition("/")[2]
        measured = [
            series(old, 1e-3, sets),
            series(new, 1e-3 * self.ratios[name], sets, "it stopped" if self.lost == name else None),
        ]
        rows = [
            replace(
                samples.latency(*entry.pair, None if entry.lost else float(np.median(entry.samples_s)), batch=1),
                peak_rss_bytes=1000,
            )
            for entry in measured
        ]
        return Measurements(tuple(rows), tuple(measured))


def measured(fake: FakeBench, names: Sequence[str] = ("onnx",), budget_s: float = 60.0, **options: Any) -> SideBySide:
    bench = cast("Bench", fake)
    pairs = [pair(name) for name in names]
    hard = {"is_hard": True, **options}
    return remeasure(bench, pairs, {}, 0.05, budget_s, clock=lambda: fake.now, **hard)[0]


def test_the_budget_ends_even_the_processes_that_an_interval_needs() -> None:
    fake = FakeBench({"onnx": 1.0, "pt2": 1.0, "tflite": 1.0}, set_s=20.0)
    rows = measured(fake, ("onnx", "pt2", "tflite"), 60.0).rows
    assert fake.now == 60.0
    assert [(row.artifact, row.processes) for row in rows] == [("onnx", 3), ("pt2", 0), ("tflite", 0)]
    assert [goal.most_s for goal in fake.goals] == [60.0]


def test_a_part_of_the_budget_that_is_left_goes_to_the_pairs_after_it() -> None:
    fake = FakeBench({"onnx": 1.0, "pt2": 1.0}, set_s=5.0)
    side = measured(fake, ("onnx", "pt2"), 100.0)
    assert [(goal.budget_s, goal.most_s) for goal in fake.goals] == [(50.0, 100.0), (85.0, 85.0)]
    assert side.needed_s == 30.0


def test_in_a_run_every_pair_has_its_processes_whatever_the_budget() -> None:
    fake = FakeBench({"onnx": 1.0, "pt2": 1.0}, set_s=50.0)
    rows = measured(fake, ("onnx", "pt2"), 60.0, is_hard=False).rows
    assert [row.processes for row in rows] == [3, 3]
    assert [goal.most_s for goal in fake.goals] == [float("inf")] * 2
    assert fake.goals[1].budget_s == 0.0


JUDGED = [(1.0, Change.SAME), (1.2, Change.WORSE), (0.8, Change.BETTER), (1.05, Change.INCONCLUSIVE)]


@pytest.mark.parametrize(("ratio", "verdict"), JUDGED)
def test_the_ratio_of_the_same_rounds_is_judged_by_the_limit(ratio: float, verdict: Change) -> None:
    side = measured(FakeBench({"onnx": ratio}, processes=5))
    unlike = replace(small(), environment=replace(small().environment, cpu="6502"))
    row = latency_row(unlike, small(), side)
    assert row.verdict is verdict
    assert row.change == pytest.approx(ratio)
    assert row.ci95 is not None
    assert row.before == pytest.approx(1e-3, rel=0.01)
    assert row.after == pytest.approx(ratio * 1e-3, rel=0.01)
    assert row.unit == "s"


def latency_row(before: RunResult, after: RunResult, side: SideBySide) -> FigureChange:
    (row,) = (row for row in compare_runs(before, after, None, side).figures if row.figure is FigureKind.LATENCY)
    return row


def test_a_time_without_an_interval_says_how_much_budget_it_needs() -> None:
    side = measured(FakeBench({"onnx": 1.5}, set_s=40.0), budget_s=60.0)
    row = latency_row(small(), small(), side)
    assert (row.verdict, row.ci95) == (Change.INCONCLUSIVE, None)
    assert row.reason == (
        "the budget ended after 1 set of processes, and an interval takes 3: all pairs need about 120 s (--budget)"
    )


def test_a_copy_that_stops_when_measured_again_is_no_pass() -> None:
    row = latency_row(small(), small(), measured(FakeBench({"onnx": 1.0}, lost="onnx")))
    assert (row.verdict, row.reason) == (Change.INCONCLUSIVE, "the artifact after gave no time: it stopped")


def test_artifacts_that_are_gone_are_compared_by_what_the_runs_recorded() -> None:
    side = SideBySide(left_out={"onnx": "it is gone"})
    comparison = compare_runs(small(), small(ratio=0.55), None, side)
    (row,) = (row for row in comparison.figures if row.figure is FigureKind.LATENCY)
    assert (row.verdict, row.unit, comparison.method) == (Change.WORSE, None, CompareMethod.SEPARATE)
    assert comparison.notes == ("not measured side by side, so what the runs recorded is compared: onnx: it is gone",)
    unlike = replace(small(), environment=replace(small().environment, cores=64))
    assert latency_row(unlike, small(), side).verdict is Change.NOT_COMPARED


def test_pages_and_texts_show_what_was_measured() -> None:
    from plotly.graph_objects import Figure

    comparison = compare_runs(small(), small(), None, measured(FakeBench({"onnx": 1.2}, processes=5)))
    (plot,) = ratio_plots(comparison)
    Figure(data=list(plot.data), layout=plot.layout)  # raises ValueError for what it does not know
    assert plot.data[0]["x"] == [pytest.approx(1.2)]
    page = html.unescape(render_compare_page(comparison))
    for text in ("FAIL  ", "side by side", "+20.0 %", "1 ms", "1.2 ms"):
        assert text in "\n".join(terminal_lines(comparison))
    assert all(text in page for text in ("+20.0 %", "side by side", "script-src 'sha256-"))
    assert "side by side" in render_compare_markdown(comparison)


def test_hostile_names_stay_text_in_the_page() -> None:
    run = samples.hostile(samples.result(), "</script><b onload=x>")
    assert "<b onload" not in render_compare_page(compare_runs(run, run))


def test_dangling_links_and_changed_files_have_a_sentence_each(tmp_path: Path) -> None:
    names = ("onnx", "tflite")
    artifacts = tuple(replace(samples.artifact(name), path=f"artifacts/{name}/model") for name in names)
    run = replace(small(), artifacts=artifacts)
    folder = tmp_path / "runs" / "1"
    (folder / "artifacts" / "tflite").mkdir(parents=True)
    (folder / "artifacts" / "onnx").symlink_to(tmp_path / "nowhere")
    (folder / "artifacts" / "tflite" / "model").write_bytes(b"another")
    opened = open_artifacts(cast("Any", None), folder, run, ["onnx", "tflite"])
    assert opened.left_out == {
        "onnx": "the store no longer has it for the run 1",
        "tflite": "it has changed since the run 1",
    }


def test_artifacts_with_other_inputs_are_no_pair() -> None:
    model = cast("Any", SimpleNamespace(
        stored=STORED, flex=(), start=SimpleNamespace(format="onnx"), model=SimpleNamespace(signature=SIGNATURE)
    ))  # fmt: skip
    wider = replace(SIGNATURE, inputs=(parse_input("x=float32[batch,4]"),))
    opened = OpenedArtifacts({"onnx": model})
    assert pair_up(opened, {"onnx": (STORED, wider)}, ["onnxruntime"]) == (
        [], {"onnx": "it takes other inputs than before"},
    )  # fmt: skip
    pairs, left_out = pair_up(opened, {"onnx": (STORED, SIGNATURE), "pt2": (STORED, SIGNATURE)}, ["onnxruntime"])
    assert ([(one.name, one.runtime.name) for one in pairs], left_out) == ([("onnx", "onnxruntime")], {})


class ClockedBench(Bench):
    """A bench whose sets of processes take 30 s of a clock that nobody waits for."""

    def _measure_once(self, measuring: Any, subjects: Any, number: int, rng: Any, left_s: float) -> None:
        LEFT.append(left_s)
        CLOCK[0] += 30.0
        for subject in subjects:
            entry = measuring.series[subject.pair, 1]
            seconds = 1e-3 * (1.3 if subject.pair[0].startswith("after") else 1.0) * (1 + 0.2 * (number % 2))
            entry.processes[number] = ProcessSamples(rounds={0: np.full(3, seconds)})

    def _about(self, subject: BenchSubject, reference: BenchSubject, measuring: Any) -> Any:
        return About("cpu", reference=reference.pair)

    def _log(self, pair: Pair) -> str | None:
        return None


CLOCK, LEFT = [0.0], [0.0]


@pytest.mark.parametrize(("most_s", "sets"), [(60.0, 2), (29.0, 1), (100.0, 3), (float("inf"), 3)])
def test_no_set_of_processes_begins_that_would_end_after_the_most(
    most_s: float, sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transload.pipeline.measure.bench_stage.time.monotonic", lambda: CLOCK[0])
    CLOCK[0] = 0.0
    LEFT.clear()
    request = read_request(None, {"bench": {"batches": (1,), "budget_s": 0}})
    bench = ClockedBench(
        cast("Any", SimpleNamespace(request=request)), STORED, cast("Any", None),
        cast("Any", SimpleNamespace(signature=SIGNATURE)),
    )  # fmt: skip
    both = [pair().subject("before"), pair().subject("after")]
    goal = BenchGoal({both[0].pair: both[0].pair, both[1].pair: both[0].pair}, lambda ratio: False, 1e3, most_s)
    bench.measure(both, replace(goal, budget_s=0.0))
    assert len(LEFT) == sets
    assert CLOCK[0] == sets * 30.0


RULES: list[tuple[dict[str, Any], str, Verdict]] = [
    ({"sqnr_db": 90.0}, "no_worse drift", Verdict.FAIL),
    ({"sqnr_db": 96.0}, "no_worse drift", Verdict.PASS),
    ({"delta": (-0.03, -0.032, -0.028)}, "no_worse metric drift", Verdict.FAIL),
    ({"delta": (-0.03, -0.06, 0.001)}, "no_worse metric drift", Verdict.INCONCLUSIVE),
    ({"delta": (0.03, 0.001, 0.06)}, "no_worse metric drift", Verdict.PASS),  # how much better it is, is open
    ({"size": 2000}, "no_worse size", Verdict.FAIL),
    ({"peak": 2_000_000}, "no_worse memory", Verdict.FAIL),
    ({"ratio": 0.6}, "no_worse latency batch=1", Verdict.FAIL),
    ({"ratio": 0.52, "spread": 1.04}, "no_worse latency batch=1", Verdict.INCONCLUSIVE),
    ({"ratio": 0.48, "spread": 1.04}, "no_worse latency batch=1", Verdict.PASS),
]


def judge(after: RunResult, before: RunResult, *, judges: bool = True) -> RunResult:
    baseline = Baseline(Path("a"), Release(before), CompareLimits(), judges=judges)
    return judge_baseline(Release(replace(after, gate=())), baseline, None)


def rule_row(result: RunResult, rule: str) -> GateRow:
    (row,) = (row for row in result.gate if row.rule == rule and row.artifact == "onnx")
    return row


@pytest.mark.parametrize(("change", "rule", "verdict"), RULES, ids=lambda value: str(value)[:40])
def test_the_gate_refuses_what_is_worse_than_the_baseline(change: dict[str, Any], rule: str, verdict: Verdict) -> None:
    quiet = small(spread=1.005)
    judged = judge(small(**change), quiet)
    assert rule_row(judged, rule).verdict is verdict
    if verdict is Verdict.FAIL:
        assert (judged.verdict, judged.exit_code) == (Verdict.FAIL, Exit.FAIL)
    assert judged.baseline is not None
    assert to_json(judged)  # fits the schema


def test_a_figure_that_cannot_be_compared_is_no_pass() -> None:
    unlike = replace(small(), environment=replace(small().environment, cpu="6502"))
    judged = judge(small(), unlike)
    row = rule_row(judged, "no_worse latency batch=1")
    assert row.verdict is Verdict.INCONCLUSIVE
    assert str(row.got).startswith("unlike conditions: cpu: 6502 against")
    shown = judge(small(), unlike, judges=False)
    assert shown.gate == ()
    assert decide(cast("Any", shown.baseline))[1] is Exit.PASS


def test_the_report_shows_the_baseline() -> None:
    from transload.pipeline.show.html_page import render_html
    from transload.pipeline.show.markdown import render_markdown

    former = replace(small(size=500), id="20200101-000000-former")
    judged = judge(small(), former)
    for text in (render_html(judged, {}), render_markdown(judged), samples.render(judged, 120)):
        assert "20200101-000000-former" in text
        assert "+100.0 %" in text
        assert "size against the baseline" in text


def test_the_baseline_of_a_request(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "1"
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(to_json(small()))
    file = tmp_path / "p.toml"
    file.write_text("[baseline]\nrun = 'runs/1'\n[gate]\nno_worse = { latency = 0.2 }\n")
    baseline = read_baseline(read_request(file))
    assert baseline is not None
    assert (baseline.folder, baseline.limits, baseline.judges) == (folder, CompareLimits(latency=0.2), True)
    assert read_baseline(RunRequest()) is None
    file.write_text("[baseline]\nrun = 'runs/1'\n[gate]\nno_worse = false\n")
    assert not cast("Any", read_baseline(read_request(file))).judges
    with pytest.raises(BadRequest, match="holds a run against its baseline, and none is named"):
        read_baseline(RunRequest(gate=GateSection(no_worse=True)))


WRONG = {
    "no_worse = { speed = 1 }": "unknown limit 'speed'",
    "no_worse = { size = '5%' }": "the limit size is no number",
    "no_worse = { size = -1 }": "the limit size is -1",
}


@pytest.mark.parametrize("text", WRONG)
def test_limits_of_the_rule_are_checked(text: str, tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(f"[gate]\n{text}\n")
    with pytest.raises(BadRequest, match=WRONG[text]) as caught:
        read_request(file)
    assert "line 2" in str(caught.value)
