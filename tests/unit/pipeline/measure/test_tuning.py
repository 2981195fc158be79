"""The search over a bench that is made up: each candidate takes the seconds that a table says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from transload.models.store import Stored
from transload.pipeline.measure.bench.rounds import ProcessSamples, RoundsPlan, Series
from transload.pipeline.measure.bench_stage import Bench
from transload.pipeline.measure.bench_subject import BenchSubject
from transload.pipeline.measure.collected_series import CollectedSeries, MeasureRule
from transload.pipeline.measure.tuning import Tuner
from transload.pipeline.options.request import BenchSection
from transload.pipeline.result.ratio import Comparison
from transload.serving.runtimes.runtime_table import RUNTIMES

STORED = Stored("", "", Path(), {}, Path(), 0.0, cached=True)


class FakeBench:
    """Each change of a setting multiplies the seconds of a call; every process adds a little noise of its own."""

    def __init__(self, factors: Mapping[tuple[str, object], float], request: BenchSection) -> None:
        self.factors = factors
        self.later: Mapping[tuple[str, object], float] | None = None  # of the finalists, where it differs
        progress = SimpleNamespace(step=lambda _: None)
        self.context = SimpleNamespace(request=SimpleNamespace(bench=request), device="cpu", progress=progress)
        self.rules: list[tuple[MeasureRule, int]] = []
        self.rng = np.random.default_rng(0)

    def collect(self, subjects: Sequence[BenchSubject], references: object, rule: MeasureRule) -> CollectedSeries:
        self.rules.append((rule, len(subjects)))
        return CollectedSeries(
            rule,
            RoundsPlan(rule.batches),
            {(subject.pair, rule.batches[0]): self.series(subject, rule) for subject in subjects},
        )

    def series(self, subject: BenchSubject, rule: MeasureRule) -> Series:
        known = self.factors if rule.processes == 1 or self.later is None else self.later
        factors = [known.get(item, 1.0) for item in subject.tuned.settings.items()]
        if 0.0 in factors:
            return Series(subject.pair, rule.batches[0], lost="it died")
        seconds = 0.001 * float(np.prod(factors))
        processes = {
            number: ProcessSamples(rounds={0: np.full(9, seconds * (1 + 0.001 * self.rng.standard_normal()))})
            for number in range(rule.processes)
        }
        return Series(subject.pair, rule.batches[0], processes=processes)


def tune(
    factors: Mapping[tuple[str, object], float],
    runtime: str = "onnxruntime",
    refused: Sequence[str] = (),
    later: Mapping[tuple[str, object], float] | None = None,
) -> tuple[FakeBench, Any]:
    bench = FakeBench(factors, BenchSection(threads=1))
    bench.later = later

    def check(subject: BenchSubject) -> str | None:
        wrong = [name for name in subject.tuned.settings if name in refused]
        return f"its answers do not verify: {wrong[0]}" if wrong else None

    tuner = Tuner(cast("Bench", bench), (1, 8), check, clock=lambda: 0.0)
    return bench, tuner.tune(BenchSubject(("onnx", runtime), STORED, RUNTIMES[runtime]))


def test_what_is_faster_together_wins() -> None:
    _, tuned = tune({("level", "ORT_ENABLE_BASIC"): 0.8, ("allow_spinning", False): 0.7, ("io_binding", True): 1.5})
    assert tuned.subject.tuned.settings == {"level": "ORT_ENABLE_BASIC", "allow_spinning": False}
    assert abs(tuned.subject.tuned.ratio_to_default - 0.56) < 0.01
    assert [row.settings for row in tuned.rows if row.kept] == [tuned.subject.tuned.settings]
    default = next(row for row in tuned.rows if not row.settings)
    assert (default.ratio_to_default, default.reason) == (1.0, "the defaults")


def test_what_does_not_verify_is_dropped_and_the_next_is_taken() -> None:
    factors = {("level", "ORT_ENABLE_BASIC"): 0.8, ("allow_spinning", False): 0.7}
    _, tuned = tune(factors, refused=["level"])
    assert tuned.subject.tuned.settings == {"allow_spinning": False}
    dropped = [row for row in tuned.rows if row.verified is False]
    assert [row.reason for row in dropped] == ["its answers do not verify: level"]


def test_what_is_only_as_fast_leaves_the_defaults() -> None:
    _, tuned = tune({("allow_spinning", False): 0.99})
    assert tuned.subject.tuned.settings == {}
    assert not any(row.kept for row in tuned.rows)


def test_what_only_looked_faster_in_the_screening_leaves_the_defaults() -> None:
    _, tuned = tune({("allow_spinning", False): 0.7}, later={("allow_spinning", False): 1.0})
    assert tuned.subject.tuned.settings == {}
    measured = next(row for row in tuned.rows if row.settings == {"allow_spinning": False})
    assert (measured.verdict, measured.verified) == (Comparison.INCONCLUSIVE, None)
    assert measured.reason == "the budget ended before it was said to be faster"


def test_a_setting_that_does_not_answer_is_named_and_left_out() -> None:
    _, tuned = tune({("level", "ORT_ENABLE_BASIC"): 0.0, ("allow_spinning", False): 0.7})
    lost = next(row for row in tuned.rows if row.settings == {"level": "ORT_ENABLE_BASIC"})
    assert (lost.verdict, lost.reason) == (None, "it died")
    assert tuned.subject.tuned.settings == {"allow_spinning": False}


def test_finalists_are_measured_in_new_processes_with_a_corrected_confidence() -> None:
    bench, tuned = tune({("level", "ORT_ENABLE_BASIC"): 0.8, ("allow_spinning", False): 0.7})
    *screenings, (final, subjects) = bench.rules
    assert {rule.processes for rule, _ in screenings} == {1}
    assert (final.processes, subjects) == (3, 4)
    assert final.confidence > screenings[0][0].confidence
    assert {row.verdict for row in tuned.rows if row.ci95} == {Comparison.FASTER, Comparison.SAME}


def test_a_runtime_without_settings_is_left_as_it_is() -> None:
    bench, tuned = tune({}, runtime="oip-grpc")
    assert (tuned.rows, bench.rules) == ((), [])
