"""The tuning stage: search the settings of each runtime, measure the finalists, verify the winner.

The default settings are one of the subjects of every round, so that each ratio is to them. A setting wins if it is
faster beyond the interval (settings_search.py) and still verifies (`check`). One that does not is dropped with a
sentence, and the next is tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...models.processors import core_count
from ...serving.runtimes.tuning_file import BatchInBound
from ...serving.runtimes.tuning_space import SPACES, Value, settings_text
from ..result.ratio import Comparison, Ratio
from ..result.schema import BoundRow, TuningRow
from .bench.comparison import compare
from .bench.latency_bound import BoundSearch, best_in_bound, next_batch
from .bench.rounds import Pair, Series
from .bench.settings_search import (
    ScreenedSettings,
    choose_finalists,
    confidence_of_each,
    in_heats,
    joined_best,
    single_changes,
)
from .bench.statistics import summary
from .bench.tuned_settings import DEFAULTS, TunedSettings
from .bench_stage import Bench
from .bench_subject import BenchSubject
from .collected_series import MeasureRule

_SCREEN_ROUNDS = 5
_SCREEN_SHARE = 0.5  # of the budget, at most: the finalists need the rest
_PASSES = 2
_BOUND_ROUNDS = 10

# Returns None where a subject with its settings still verifies, else the sentence that says why it does not.
SettingsCheck = Callable[[BenchSubject], str | None]


@dataclass(frozen=True)
class TunedSubject:
    """A subject with the settings that it is measured with, and what was tried."""

    subject: BenchSubject
    rows: tuple[TuningRow, ...] = ()
    bound: BoundRow | None = None


class Tuner:
    """Tunes subjects in process, one after the other, at the first batch size."""

    def __init__(
        self, bench: Bench, batches: tuple[int, ...], check: SettingsCheck, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bench, self._check, self._clock = bench, check, clock
        self._request = bench.context.request.bench
        self._batches = batches
        self._threads = self._request.threads if "threads" in self._request.model_fields_set else None

    def tune(self, subject: BenchSubject) -> TunedSubject:
        """Return the subject with the settings that won; with the defaults, and no rows, where it has no settings."""
        if subject.runtime.served or subject.runtime.name not in SPACES:
            return TunedSubject(subject)
        start, default = self._clock(), replace(subject, tuned=DEFAULTS)
        screened = self._screen(default, start)
        finalists = choose_finalists(screened, same_within=self._request.same_within)
        left_s = max(0.0, self._request.tune_budget_s - (self._clock() - start))
        measured = self._measure_finalists(default, finalists, left_s)
        rows, winner = self._choose(default, measured)
        rows += [_screened_row(default, self._batches[0], row) for row in screened if row.settings not in finalists]
        return TunedSubject(replace(subject, tuned=winner), tuple(rows))

    def bound(self, tuned: TunedSubject, bound_s: float) -> TunedSubject:
        """Add the batch size of the largest throughput whose p99 keeps the bound."""
        subject = tuned.subject
        if subject.runtime.served:
            return tuned
        search = BoundSearch(bound_s)
        while (batch := next_batch(search, self._bench.model.signature.inputs)) is not None:
            rule = MeasureRule((batch,), _BOUND_ROUNDS, 1, 0.0, self._request.same_within)
            series = self._bench.collect([subject], {subject.pair: subject.pair}, rule).series[subject.pair, batch]
            search = search.add(batch, series)
        best, reason = best_in_bound(search)
        row = BoundRow(
            artifact=subject.pair[0], runtime=subject.pair[1], settings=dict(subject.tuned.settings), bound_s=bound_s,
            batch=best.batch if best else None, p99_s=best.p99_s if best else None,
            throughput_per_s=best.throughput_per_s if best else None,
            reason=reason,
        )  # fmt: skip
        return replace(tuned, bound=row)

    def _screen(self, default: BenchSubject, start: float) -> list[ScreenedSettings]:
        """Return the changes that were tried, each in one process beside one with the defaults."""
        base: dict[str, Value] = {}
        screened: list[ScreenedSettings] = []
        for _ in range(_PASSES):
            changes = self._changes(default, base)
            fresh = [change for change in changes if all(change != known.settings for known in screened)]
            for heat in in_heats(fresh):
                if screened and self._clock() - start > _SCREEN_SHARE * self._request.tune_budget_s:
                    return screened
                screened += self._screen_heat(default, heat)
            base = joined_best(screened, base, same_within=self._request.same_within)
            if not base:
                break
        return screened

    def _changes(self, default: BenchSubject, base: Mapping[str, Value]) -> list[dict[str, Value]]:
        device = default.device(self._bench.context.device)
        changes = single_changes(default.runtime.name, device, core_count(), base, threads=self._threads)
        return [dict(base), *changes] if base else changes

    def _screen_heat(self, default: BenchSubject, heat: Sequence[Mapping[str, Value]]) -> list[ScreenedSettings]:
        rule = MeasureRule(self._batches[:1], _SCREEN_ROUNDS, 1, 0.0, self._request.same_within)
        measured = self._measure(default, heat, rule)
        return [
            ScreenedSettings(settings, ratio.center if ratio else None, _p50(series), series.lost)
            for settings, (series, ratio) in zip(heat, measured[1:], strict=True)
        ]

    def _measure_finalists(
        self, default: BenchSubject, finalists: Sequence[Mapping[str, Value]], left_s: float
    ) -> list[tuple[Mapping[str, Value], Series, Ratio | None]]:
        """Return the defaults and the finalists, measured anew in new processes."""
        if not finalists:
            return []
        request = self._request
        rule = MeasureRule(
            self._batches[:1], request.rounds, request.processes, left_s, request.same_within,
            confidence_of_each(len(finalists)),
        )  # fmt: skip
        measured = self._measure(default, finalists, rule)
        return [(settings, *pair) for settings, pair in zip([{}, *finalists], measured, strict=True)]

    def _measure(
        self, default: BenchSubject, candidates: Sequence[Mapping[str, Value]], rule: MeasureRule
    ) -> list[tuple[Series, Ratio | None]]:
        """Return series and ratio of the defaults and of each candidate, all measured in the same rounds."""
        name, runtime = default.pair
        subjects = [default]
        for number, settings in enumerate(candidates, 1):
            pair: Pair = (name, f"{runtime}.{number}")
            subjects.append(replace(default, pair=pair, tuned=TunedSettings(settings)))
            self._bench.context.progress.step(f"{name} in {runtime}: {settings_text(settings)}")
        collected = self._bench.collect(subjects, {subject.pair: default.pair for subject in subjects}, rule)
        reference = collected.series[default.pair, rule.batches[0]]
        rows: list[tuple[Series, Ratio | None]] = []
        for subject in subjects:
            series = collected.series[subject.pair, rule.batches[0]]
            usable = series.lost is None and reference.lost is None
            rows.append(
                (series, compare(series, reference, same_within=rule.same_within, confidence=rule.confidence))
                if usable
                else (series, None)
            )
        return rows

    def _choose(
        self, default: BenchSubject, measured: Sequence[tuple[Mapping[str, Value], Series, Ratio | None]]
    ) -> tuple[list[TuningRow], TunedSettings]:
        """Return a row for each, and the fastest that is faster than the defaults and verifies."""
        order = sorted(measured, key=lambda row: row[2].center if row[2] else float("inf"))
        winner = DEFAULTS
        rows: list[TuningRow] = []
        for settings, series, ratio in order:
            row = _row(default, self._batches[0], settings, series, ratio)
            if settings and ratio and ratio.comparison is Comparison.FASTER and not winner.settings:
                tuned = TunedSettings(settings, ratio.center, ratio.ci95, self._batches[0])
                doubt = self._check(replace(default, tuned=tuned))
                row = replace(
                    row, verified=doubt is None, kept=doubt is None,
                    reason=doubt or "the fastest that is faster beyond the interval, and its answers verify",
                )  # fmt: skip
                winner = tuned if doubt is None else winner
            rows.append(row)
        return rows, winner


def in_bound_of(row: BoundRow | None, threads: int) -> BatchInBound | None:
    """Return the batch size that keeps a latency bound, measured with so many threads, as tuning.json stores it."""
    if row is None or row.batch is None or row.p99_s is None or row.throughput_per_s is None:
        return None
    return BatchInBound(
        bound_s=row.bound_s, batch=row.batch, p99_s=row.p99_s, throughput_per_s=row.throughput_per_s, threads=threads
    )  # fmt: skip


def _row(
    default: BenchSubject, batch: int, settings: Mapping[str, Value], series: Series, ratio: Ratio | None
) -> TuningRow:
    is_default = not settings
    why = {
        Comparison.FASTER: "it is faster beyond the interval, and another is faster still",
        Comparison.SLOWER: "it is slower than the defaults",
        Comparison.SAME: "it is as fast as the defaults",
        Comparison.INCONCLUSIVE: "the budget ended before it was said to be faster",
    }
    verdict = Comparison.SAME if is_default and ratio else ratio.comparison if ratio else None
    return TuningRow(
        artifact=default.pair[0],
        runtime=default.pair[1],
        batch=batch,
        settings=dict(settings),
        p50_s=_p50(series),
        ratio_to_default=ratio.center if ratio else None,
        ci95=(1.0, 1.0) if is_default and ratio else ratio.ci95 if ratio else None,
        verdict=verdict,
        verified=None,
        reason="the defaults" if is_default else why[verdict] if verdict else series.lost or "it was not measured",
    )


def _screened_row(default: BenchSubject, batch: int, screened: ScreenedSettings) -> TuningRow:
    return TuningRow(
        artifact=default.pair[0],
        runtime=default.pair[1],
        batch=batch,
        settings=dict(screened.settings),
        p50_s=screened.p50_s,
        ratio_to_default=screened.ratio,
        ci95=None,
        verdict=None if screened.ratio is None else Comparison.INCONCLUSIVE,
        verified=None,
        reason=screened.lost or "left out after one process of each: it was not among the fastest",
    )


def _p50(series: Series) -> float | None:
    return summary(series.samples_s, series.batch).p50_s if len(series.samples_s) else None
