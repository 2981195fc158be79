"""Interleaved rounds: every subject once a round, in random order, a chunk of calls at a time; all samples kept.

What slows the machine for a while slows all subjects of a round, and leaves the ratios of that round as they are.
Chunks and not single calls, because alternating call by call meets cold caches (docs/design/latency.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

import numpy as np

from ...models.errors import TransloadError
from ...models.signature import Array

LEAST_ROUNDS = 5  # an interval over fewer is none
_MOST_CALLS = 100_000
_CALIBRATIONS = 3

Pair: TypeAlias = tuple[str, str]  # artifact, runtime
# Calls a method of a MeasuredSession (subject.py): `Worker.ask`. Where that raises TransloadError the subject is out.
Subject: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class RoundsPlan:
    """What is measured, and for how long."""

    batches: tuple[int, ...] = (1, 8)
    rounds: int = 30
    chunk_s: float = 0.02  # at least

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
    progress: Callable[[int, int], None] = lambda batch, done: None,  # noqa: ARG005
) -> list[Series]:
    """One series for each subject and batch, in the order of `plan.batches`, then of `subjects`.
    `progress` is told the batch and how many rounds are done."""
    lost: dict[Pair, str] = {}
    measured: list[Series] = []
    for batch in plan.batches:
        series = [_prepared(pair, subjects[pair], batch, plan.chunk_s, lost.get(pair)) for pair in subjects]
        for done in _rounds(subjects, series, plan.rounds, rng):
            progress(batch, done)
        lost.update({entry.pair: entry.lost for entry in series if entry.lost})
        measured.extend(series)
    return measured


def _prepared(pair: Pair, subject: Subject, batch: int, chunk_s: float, lost: str | None) -> Series:
    series = Series(pair, batch, lost=lost)
    if lost is None:
        try:
            series.device = subject("device")
            warm = subject("prepare", batch=batch)
            series.first_call_s, series.timer_s = float(warm["first_call_s"]), float(warm["timer_s"])
            series.calls = _calibrated(subject, batch, chunk_s, float(warm["call_s"]))
        except TransloadError as error:
            series.lost = error.what
    return series


def _calibrated(subject: Subject, batch: int, chunk_s: float, call_s: float) -> int:
    """How many calls make a chunk. Chunks that turn out shorter than `chunk_s` are tried again, and not kept."""
    calls = _calls(chunk_s, call_s)
    for _ in range(_CALIBRATIONS):
        spent = sum(subject("chunk", batch=batch, calls=calls)["samples_s"])
        if spent >= chunk_s or calls == _MOST_CALLS:
            break
        calls = max(calls + 1, _calls(1.05 * chunk_s, spent / calls))
    return calls


def _calls(chunk_s: float, call_s: float) -> int:
    return max(1, min(_MOST_CALLS, math.ceil(chunk_s / max(call_s, 1e-9))))


def _rounds(subjects: Mapping[Pair, Subject], series: list[Series], rounds: int, rng: Random) -> Iterator[int]:
    """Measure one batch size, and count the rounds."""
    for at in range(rounds):
        alive = [entry for entry in series if entry.lost is None]
        if not alive:
            return
        rng.shuffle(alive)
        for entry in alive:
            try:
                samples = subjects[entry.pair]("chunk", batch=entry.batch, calls=entry.calls)["samples_s"]
                entry.rounds[at] = np.asarray(samples, dtype=np.float64)
            except TransloadError as error:
                entry.lost = error.what
        yield at + 1
