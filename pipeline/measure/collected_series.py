"""The samples that a bench has collected so far, and what is still to be measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...models.processors import core_count
from ..options.request import BenchSection
from ..result.ratio import Ratio
from ..result.schema import LatencyRow
from .bench.comparison import LOOKS, VERDICT_CONFIDENCE, compare
from .bench.latency_rows import About, Conditions, latency_rows, reference_of
from .bench.rounds import Pair, RoundsPlan, Series
from .bench.statistics import Load, doubt_machine
from .bench.throttling import Throttling, quota_cores, worst_throttling
from .bench_subject import BenchSubject


@dataclass(frozen=True)
class BenchGoal:
    """What subjects are held against, and when measuring ends."""

    references: Mapping[Pair, Pair] | None = None  # by subject; None: `reference_of_kind`
    is_settled: Callable[[Ratio], bool] = lambda ratio: ratio.is_decided
    budget_s: float | None = None  # None: the request's
    most_s: float = math.inf  # no set of processes that would end later begins, however few there were


DEFAULT_GOAL = BenchGoal()


@dataclass(frozen=True)
class MeasureRule:
    """What is measured, and until when."""

    batches: tuple[int, ...]
    rounds: int
    processes: int
    budget_s: float
    same_within: float
    confidence: float = VERDICT_CONFIDENCE
    is_settled: Callable[[Ratio], bool] = lambda ratio: ratio.is_decided
    most_s: float = math.inf  # see BenchGoal

    @classmethod
    def of(cls, section: BenchSection, batches: tuple[int, ...], goal: BenchGoal = DEFAULT_GOAL) -> MeasureRule:
        """Return the rule of a request."""
        budget_s = section.budget_s if goal.budget_s is None else goal.budget_s
        rule = cls(batches, section.rounds, section.processes, budget_s, section.same_within)
        return replace(rule, is_settled=goal.is_settled, most_s=goal.most_s)

    def seconds_left(self, sets: int, seconds: float) -> float:
        """Return the seconds that the next set of processes may take; of a hard end, its share of what is left."""
        shares = max(1, self.processes - sets) if self.most_s < math.inf else 1
        return (min(self.budget_s, self.most_s) - seconds) / shares


@dataclass
class CollectedSeries:
    """What has been measured so far."""

    rule: MeasureRule
    plan: RoundsPlan
    series: dict[tuple[Pair, int], Series]
    peaks: dict[Pair, int] = field(default_factory=dict)  # bytes
    loads: list[Load] = field(default_factory=list)
    sets: int = 0  # of processes
    seconds: float = 0.0
    throttlings: list[Throttling] = field(default_factory=list)

    def lose(self, pair: Pair, why: str) -> None:
        """Take a subject out at all batch sizes."""
        for batch in self.plan.batches:
            self.series[pair, batch].lost = self.series[pair, batch].lost or why

    def is_lost(self, pair: Pair) -> bool:
        """Return whether a subject is out."""
        return any(self.series[pair, batch].lost for batch in self.plan.batches)

    def add_peak(self, pair: Pair, peak_bytes: int | None) -> None:
        """Keep the most memory that a subject held in any set of processes."""
        if peak_bytes is not None:
            self.peaks[pair] = max(peak_bytes, self.peaks.get(pair, 0))

    def still_wanted(self, subjects: Sequence[BenchSubject], references: Mapping[Pair, Pair]) -> list[BenchSubject]:
        """Return those of the last set of processes that are to be measured in one more: after a look those that are
        not settled, and their references."""
        rule, number = self.rule, self.sets
        alive = [subject for subject in subjects if not self.is_lost(subject.pair)]
        expected_s = self.seconds * (number + 1) / number
        if expected_s > rule.most_s:
            return []
        if number < rule.processes:
            return alive
        if expected_s > rule.budget_s:
            return []
        if number not in LOOKS:
            return alive
        unsettled = self.unsettled(references)
        measured = unsettled | {references[pair] for pair in unsettled}
        return [subject for subject in alive if subject.pair in measured]

    def add_machine(self, load: Load | None, throttling: Throttling) -> tuple[str, ...]:
        """Add how the machine was during a set of processes; return what that says against the set."""
        if load:
            self.loads.append(load)
        self.throttlings.append(throttling)
        return tuple(doubt.text for doubt in doubt_machine(load, throttling))

    def unsettled(self, references: Mapping[Pair, Pair]) -> set[Pair]:
        """Return the subjects of which a comparison is not settled."""
        pairs = set()
        for entry in self.series.values():
            reference = reference_of(entry, self.series, references)
            if entry.lost is None and reference is not None and reference is not entry:
                ratio = compare(entry, reference, same_within=self.rule.same_within, confidence=self.rule.confidence)
                if ratio is not None and not self.rule.is_settled(ratio):
                    pairs.add(entry.pair)
        return pairs

    def rows(self, about: Mapping[Pair, About]) -> list[LatencyRow]:
        """Return the rows, subject by subject, batch by batch."""
        load = max(self.loads, key=lambda load: load.other_cores, default=None)
        conditions = Conditions(
            load=load,
            throttling=worst_throttling(self.throttlings),
            cores=min(core_count(), quota_cores() or math.inf),
            same_within=self.rule.same_within,
            seconds_per_process=self.seconds / max(self.sets, 1),
        )
        return latency_rows(self.series.values(), about, conditions)
