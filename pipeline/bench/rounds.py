"""Interleaved rounds: every subject once a round, in random order, a chunk of calls at a time; all samples kept.

What slows the machine for a while slows all subjects of a round, and leaves the ratios of that round as they are.
Chunks and not single calls, because alternating call by call meets cold caches (docs/design/latency.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...models.errors import TransloadError
from ...models.signature import Array

LEAST_ROUNDS = 5  # whatever the time budget says: an interval over fewer is none
_MOST_CALLS = 100_000
_CALIBRATIONS = 3

Pair: TypeAlias = tuple[str, str]  # artifact, runtime


class Subject(Protocol):
    """What is measured, as the parent sees it (pipeline/bench/subject.py behind a worker). Each method may raise
    TransloadError: the subject is then out."""

    def prepare(self, batch: int) -> Mapping[str, Any]:
        """Warm up; {first_call_s, call_s, calls, timer_s}."""
        ...

    def chunk(self, batch: int, calls: int) -> Mapping[str, Any]:
        """{samples_s}: the seconds of each call."""
        ...

    def device(self) -> str:
        """Where it really runs."""
        ...


@dataclass(frozen=True, slots=True)
class RoundsPlan:
    """What is measured, and for how long."""

    batches: tuple[int, ...] = (1, 8)
    rounds: int = 30
    chunk_s: float = 0.02  # at least
    budget_s: float | None = None  # for all batches together, preparation not counted; ends the rounds early

    def __post_init__(self) -> None:
        if not self.batches or min(self.batches) < 1 or self.rounds < 1 or self.chunk_s <= 0:
            raise ValueError(f"a plan needs batches, rounds and a chunk above 0, got {self}")


@dataclass
class Series:
    """Everything measured of one subject at one batch size."""

    pair: Pair
    batch: int
    device: str | None = None  # None: it was lost before it could say
    first_call_s: float | None = None
    timer_s: float = 0.0
    calls: int = 1  # in a chunk
    rounds: dict[int, Array] = field(default_factory=dict)  # number of the round -> seconds of its calls
    lost: str | None = None  # the sentence of what ended it

    @property
    def samples_s(self) -> Array:
        """The seconds of every call, in the order of the rounds."""
        return np.concatenate([*self.rounds.values()]) if self.rounds else np.zeros(0)


def run_rounds(
    subjects: Mapping[Pair, Subject],
    plan: RoundsPlan,
    *,
    rng: Random,
    clock: Callable[[], float],
    progress: Callable[[int, int], None] = lambda batch, done: None,  # noqa: ARG005
) -> list[Series]:
    """One series for each subject and batch, in the order of `plan.batches`, then of `subjects`.

    `clock` gives seconds and never goes back; it only ends rounds, the subjects time themselves. `progress` is told
    the batch and how many rounds are done.
    """
    lost: dict[Pair, str] = {}
    measured: list[Series] = []
    for batch in plan.batches:
        series = [_prepared(pair, subjects[pair], batch, plan.chunk_s, lost.get(pair)) for pair in subjects]
        for done in _rounds(subjects, series, plan, rng, clock):
            progress(batch, done)
        lost.update({entry.pair: entry.lost for entry in series if entry.lost})
        measured.extend(series)
    return measured


def _prepared(pair: Pair, subject: Subject, batch: int, chunk_s: float, lost: str | None) -> Series:
    series = Series(pair, batch, lost=lost)
    if lost is None:
        try:
            series.device = subject.device()
            warm = subject.prepare(batch)
            series.first_call_s, series.timer_s = float(warm["first_call_s"]), float(warm["timer_s"])
            series.calls = _calibrated(subject, batch, chunk_s, float(warm["call_s"]))
        except TransloadError as error:
            series.lost = error.what
    return series


def _calibrated(subject: Subject, batch: int, chunk_s: float, call_s: float) -> int:
    """How many calls make a chunk. Chunks that turn out shorter than `chunk_s` are tried again, and not kept."""
    calls = _calls(chunk_s, call_s)
    for _ in range(_CALIBRATIONS):
        spent = sum(subject.chunk(batch, calls)["samples_s"])
        if spent >= chunk_s or calls == _MOST_CALLS:
            break
        calls = max(calls + 1, _calls(1.05 * chunk_s, spent / calls))
    return calls


def _calls(chunk_s: float, call_s: float) -> int:
    return max(1, min(_MOST_CALLS, math.ceil(chunk_s / max(call_s, 1e-9))))


def _rounds(
    subjects: Mapping[Pair, Subject], series: list[Series], plan: RoundsPlan, rng: Random, clock: Callable[[], float]
) -> Iterator[int]:
    """Measure one batch size, and count the rounds."""
    budget_s = None if plan.budget_s is None else plan.budget_s / len(plan.batches)
    start = clock()
    for at in range(plan.rounds):
        alive = [subject for subject in series if subject.lost is None]
        late = budget_s is not None and at >= LEAST_ROUNDS and clock() - start >= budget_s
        if not alive or late:
            return
        rng.shuffle(alive)
        for subject in alive:
            try:
                samples = subjects[subject.pair].chunk(subject.batch, subject.calls)["samples_s"]
                subject.rounds[at] = np.asarray(samples, dtype=np.float64)
            except TransloadError as error:
                subject.lost = error.what
        yield at + 1
