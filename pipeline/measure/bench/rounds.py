"""Interleaved rounds: every subject once a round, in random order, a chunk of calls at a time; all samples kept.

What slows the machine for a while slows all subjects of a round, and leaves the ratios of that round as they are.
Chunks and not single calls, because alternating call by call meets cold caches. The rounds of one set of processes
repeat one draw of what a process is born with (addresses, pages), so the whole is repeated in new processes, each of
which adds its own samples to a series (docs/design/latency.md).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeAlias

import numpy as np

from ....models.errors import TransloadError
from ....models.signature import Array
from .gpu_energy import LEAST_S, gpu_energy_j

MOST_ROUNDS = 60
_MOST_CALLS = 100_000
_CALIBRATIONS = 3

Pair: TypeAlias = tuple[str, str]  # artifact, runtime
# Of each window: seconds from the first call to its end, and its median call; the first call is the first window.
WarmUp: TypeAlias = list[tuple[float, float]]
# Calls a method of a MeasuredSession (subject.py): `Worker.ask`. Where that raises TransloadError the subject is out.
Subject: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class RoundsPlan:
    """What is measured in one set of processes, and for how long."""

    batches: tuple[int, ...] = (1, 8)
    rounds: int = 10  # at least
    chunk_s: float = 0.02  # at least
    measuring_s: float = 0.0  # rounds go on for so long, up to MOST_ROUNDS: all batch sizes have an equal part of it

    def __post_init__(self) -> None:
        if not self.batches or min(self.batches) < 1 or self.rounds < 1 or self.chunk_s <= 0:
            raise ValueError(f"a plan needs batches, rounds and a chunk above 0, got {self}")


@dataclass
class ProcessSamples:
    """What one process gave at one batch size."""

    load_s: float = 0.0  # from nothing to a session: modules and the model
    first_call_s: float = 0.0
    warm_up_s: float = 0.0
    timer_s: float = 0.0
    steady_bytes: int = 0  # resident after the warm-up
    energy_j: float | None = None  # of a call, on a GPU that counts it
    calls: int = 1  # in a chunk
    rounds: dict[int, Array] = field(default_factory=dict)  # number of the round -> seconds of its calls
    warm_windows: WarmUp = field(default_factory=list)


@dataclass
class Series:
    """Everything measured of one subject at one batch size."""

    pair: Pair
    batch: int
    device: str | None = None  # None: it was lost before it could say
    processes: dict[int, ProcessSamples] = field(default_factory=dict)  # number of the set of processes -> its samples
    answers: Mapping[str, Any] | None = None  # to the first feed (subject.py)
    lost: str | None = None  # the sentence of what ended it

    @property
    def chunks(self) -> list[Array]:
        """The seconds of the calls of each chunk, in the order in which they were measured."""
        return [chunk for process in self.processes.values() for chunk in process.rounds.values()]

    @property
    def samples_s(self) -> Array:
        """The seconds of every call, in the order in which they were measured."""
        return np.concatenate(chunks) if (chunks := self.chunks) else np.zeros(0)

    @property
    def warm_ups(self) -> list[WarmUp]:
        """The warm-up of each process, in the order in which they were measured."""
        return [process.warm_windows for process in self.processes.values()]


def empty_series(pairs: Iterable[Pair], plan: RoundsPlan) -> dict[tuple[Pair, int], Series]:
    """Return a series without samples for each batch size and subject, by pair and batch."""
    pairs = list(pairs)
    return {(pair, batch): Series(pair, batch) for batch in plan.batches for pair in pairs}


def run_rounds(
    subjects: Mapping[Pair, Subject],
    series: Mapping[tuple[Pair, int], Series],
    plan: RoundsPlan,
    number: int,
    *,
    rng: Random,
    progress: Callable[[int, int], None] = lambda batch, done: None,  # noqa: ARG005
    clock: Callable[[], float] = time.monotonic,
    energy_j: Callable[[str], float | None] = gpu_energy_j,
) -> None:
    """Add the samples of set `number` of processes to the series of these subjects (by pair and batch), batch by batch.
    A subject that is lost on the way is asked no more. `progress` is told the batch and how many rounds are done.
    `energy_j` reads the counter of a device."""
    for batch in plan.batches:
        alive = [series[pair, batch] for pair in subjects if _lost(series, plan, pair) is None]
        for entry in alive:
            _prepare(entry, subjects[entry.pair], number, plan.chunk_s)
        end = clock() + plan.measuring_s / len(plan.batches)
        for done in _rounds(subjects, [entry for entry in alive if entry.lost is None], number, rng):
            progress(batch, done)
            if done >= plan.rounds and (done >= MOST_ROUNDS or clock() >= end):
                break
        for entry in alive:
            _measure_energy(entry, subjects[entry.pair], number, energy_j)


def _lost(series: Mapping[tuple[Pair, int], Series], plan: RoundsPlan, pair: Pair) -> str | None:
    """Return what ended a subject at any batch size: its process is gone, so all others end, too."""
    why = next((series[pair, batch].lost for batch in plan.batches if series[pair, batch].lost), None)
    if why:
        for batch in plan.batches:
            series[pair, batch].lost = series[pair, batch].lost or why
    return why


def _prepare(series: Series, subject: Subject, number: int, chunk_s: float) -> None:
    try:
        series.device = subject("device")
        warm = subject("prepare", batch=series.batch)
        process = ProcessSamples(
            load_s=float(warm["load_s"]),
            first_call_s=float(warm["first_call_s"]),
            warm_up_s=float(warm["warm_up_s"]),
            timer_s=float(warm["timer_s"]),
            steady_bytes=int(warm["resident_bytes"]),
            warm_windows=[(float(end_s), float(call_s)) for end_s, call_s in warm.get("windows", ())],
        )
        series.answers = series.answers or warm["answers"]
        process.calls = _calibrated(subject, series.batch, chunk_s, float(warm["call_s"]))
        series.processes[number] = process
    except TransloadError as error:
        series.lost = error.what


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


def _measure_energy(series: Series, subject: Subject, number: int, energy_j: Callable[[str], float | None]) -> None:
    """Read a GPU's counter around calls of one subject alone: it moves too seldom for the chunks of a round."""
    device = series.device or ""
    if series.lost is not None or (before := energy_j(device)) is None:
        return
    calls = _calls(LEAST_S, float(np.median(series.samples_s)))
    try:
        subject("chunk", batch=series.batch, calls=calls)
    except TransloadError as error:
        series.lost = error.what
        return
    after = energy_j(device)
    if after is not None and after > before:
        series.processes[number].energy_j = (after - before) / calls


def _rounds(subjects: Mapping[Pair, Subject], series: list[Series], number: int, rng: Random) -> Iterator[int]:
    """Measure one batch size round by round, and count the rounds."""
    for at in itertools.count():
        alive = [entry for entry in series if entry.lost is None]
        if not alive:
            return
        rng.shuffle(alive)
        for entry in alive:
            process = entry.processes[number]
            try:
                samples = subjects[entry.pair]("chunk", batch=entry.batch, calls=process.calls)["samples_s"]
                process.rounds[at] = np.asarray(samples, dtype=np.float64)
            except TransloadError as error:
                entry.lost = error.what
        yield at + 1
