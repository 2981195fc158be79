"""From the requests of a load measurement to its figures, and the doubts that speak against them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....models.signature import Array
from ...result.load_cases import LoadCase, LoadScenario
from ..bench.percentiles import percentile
from ..bench.statistics import Load
from . import early_stopping
from .load_records import LoadRecords, RequestStatus

_LATE = 0.1  # of the median latency: the generator may send so late
_GROWN, _GROWN_SHARE = 10, 0.05  # requests, and of those that arrive: a backlog that grows by both is none of chance
_HARNESS = 1.5  # the harness alone must be so many times faster than what it measures
_BUSY = 0.01  # of requests, that may find no free connection
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """The figures of one load measurement, in seconds. A percentile that the requests do not support is None."""

    seconds: float  # from the start to the last answer
    requests: int
    refused: int
    lost: int  # without an answer, or not in time
    throughput_per_s: float  # samples that were answered
    p50_s: float | None = None
    p90_s: float | None = None
    p99_s: float | None = None
    p999_s: float | None = None
    p50_ci95: Interval | None = None
    p90_ci95: Interval | None = None
    p99_ci95: Interval | None = None
    p999_ci95: Interval | None = None
    early_stopping_s: float | None = None
    late_p99_s: float | None = None
    valid: bool | None = None


@dataclass(frozen=True, slots=True)
class LoadConditions:
    """What a measurement went on beside."""

    connections: int = 1
    retries: int = 0  # requests that a client sent twice
    load: Load | None = None  # of other programs
    harness_per_s: float | None = None  # samples a second of the same load on a model that computes nothing


def figures(records: LoadRecords, case: LoadCase, batch: int, connections: int = 1) -> LoadFigures:
    """Return the figures of a measurement with at least one request. `batch`: samples in a request."""
    ordered_s = records.latencies_s
    ends = records.done_s[np.isfinite(records.done_s)]
    schedule_s = float(records.intended_s[-1]) if case.scenario.is_open else 0.0
    seconds = max(float(ends.max(initial=0.0)), schedule_s, 1e-12)
    unanswered = records.count(RequestStatus.LOST) + records.count(RequestStatus.TIMEOUT)
    answered = records.count(RequestStatus.OK)
    quantile = case.scenario.quantile
    percentiles = {} if quantile is None else _percentiles(ordered_s)
    bound = None if quantile is None else early_stopping.bound(ordered_s, quantile)
    return LoadFigures(
        seconds=seconds,
        requests=len(records),
        refused=records.count(RequestStatus.REFUSED),
        lost=unanswered,
        throughput_per_s=batch * answered / seconds,
        **percentiles,
        early_stopping_s=bound if bound is not None and math.isfinite(bound) else None,
        late_p99_s=lateness_s(records, connections) if case.scenario.is_open else None,
        valid=is_valid(ordered_s, case),
    )


def _percentiles(ordered_s: Array) -> dict[str, Any]:
    """Return those percentiles, with intervals, that sorted latencies support; those without an answer are infinite."""
    answered = int(np.searchsorted(ordered_s, np.inf))
    supported: dict[str, Any] = {}
    if not answered:
        return supported
    # Interpolation between an answer and infinity gives no number, so these stand in, and are taken out again.
    finite = np.where(np.isfinite(ordered_s), ordered_s, np.finfo(np.float64).max / 4)
    for name, quantile in _QUANTILES.items():
        result = percentile(finite, quantile)
        if result.ci95 is not None and result.ci95[1] <= ordered_s[answered - 1]:
            supported[f"{name}_s"], supported[f"{name}_ci95"] = result.value, result.ci95
    return supported


def lateness_s(records: LoadRecords, connections: int) -> float | None:
    """Return how late the generator itself sent, at the 99th percentile: of the requests that found a connection free.
    None where none did."""
    late = (records.sent_s - records.intended_s)[~waited(records, connections)]
    late = late[np.isfinite(late)]
    return float(np.quantile(late, 0.99)) if len(late) else None


def waited(records: LoadRecords, connections: int) -> Array:
    """Return which requests found no connection free at their intended time, shape (requests,)."""
    done = np.sort(records.done_s[np.isfinite(records.done_s)])
    # Of the requests before it, those without an answer hold a connection or will take the next free one.
    ahead = np.arange(len(records)) - np.searchsorted(done, records.intended_s, side="right")
    return np.asarray(ahead >= connections)


def is_valid(ordered_s: Array, case: LoadCase) -> bool | None:
    """Return whether a server keeps its bound: True where that is sure to 99 % (MLPerf's rule), False where the 99th
    percentile is above it, None where there are too few requests to say."""
    if case.scenario is not LoadScenario.SERVER or case.bound_s is None or case.scenario.quantile is None:
        return None
    over = len(ordered_s) - int(np.searchsorted(ordered_s, case.bound_s, side="right"))
    if early_stopping.keeps_bound(over, len(ordered_s), case.scenario.quantile):
        return True
    return False if over > (1 - case.scenario.quantile) * len(ordered_s) else None


@dataclass(frozen=True, slots=True)
class Backlog:
    """How the number of requests that wait for an answer grew in the second half of a schedule."""

    grown: int  # requests
    arrived: int
    answered_per_s: float
    at_end: int

    @property
    def is_sustained(self) -> bool:
        """Whether the server kept up with the rate."""
        return self.grown < _GROWN or self.grown <= _GROWN_SHARE * self.arrived


def backlog(records: LoadRecords) -> Backlog:
    """Compare the backlog at half of an open schedule with that at its end."""
    end = float(records.intended_s[-1])
    half = end / 2
    done = np.sort(records.done_s[np.isfinite(records.done_s)])
    arrived = [int(np.searchsorted(records.intended_s, at, side="right")) for at in (half, end)]
    answered = [int(np.searchsorted(done, at, side="right")) for at in (half, end)]
    waiting = [came - went for came, went in zip(arrived, answered, strict=True)]
    per_s = (answered[1] - answered[0]) / half if half else 0.0
    return Backlog(waiting[1] - waiting[0], arrived[1] - arrived[0], per_s, waiting[1])


def doubts(records: LoadRecords, summary: LoadFigures, case: LoadCase, conditions: LoadConditions) -> tuple[str, ...]:
    """Why these figures should not be believed yet, each with its number and what mends it."""
    return (
        *_doubts_of_failures(summary, conditions),
        *(_doubts_of_rate(records, summary, case, conditions) if case.scenario.is_open else ()),
        *_doubts_of_counts(summary, case),
        *_doubts_of_machine(summary, conditions),
    )


def _doubts_of_failures(summary: LoadFigures, conditions: LoadConditions) -> Iterator[str]:
    if summary.refused or summary.lost:
        yield (
            f"of {summary.requests} requests {summary.refused} were refused and {summary.lost} had no answer: "
            "percentiles count them as slower than any answer"
        )
    if conditions.retries:
        yield (
            f"{conditions.retries} requests were sent twice, as the server had closed their connection: "
            "their time is that of both"
        )


def _doubts_of_rate(
    records: LoadRecords, summary: LoadFigures, case: LoadCase, conditions: LoadConditions
) -> Iterator[str]:
    growth = backlog(records)
    if not growth.is_sustained:
        yield (
            f"not sustained: of {case.rate_per_s:g} requests a second {growth.answered_per_s:.0f} were answered, and "
            f"{growth.at_end} waited at the end: latencies grow with the time that is measured, so use a lower rate"
        )
    elif (share := float(np.mean(waited(records, conditions.connections)))) > _BUSY:
        yield (
            f"{share:.0%} of the requests found all {conditions.connections} connections busy: "
            "their wait is in the latency, and the server never saw it"
        )
    if summary.late_p99_s is not None and summary.p50_s and summary.late_p99_s > _LATE * summary.p50_s:
        yield (
            f"the generator itself sent up to {summary.late_p99_s * 1e3:.3g} ms late (p99), "
            f"{summary.late_p99_s / summary.p50_s:.0%} of the median: leave it a free core"
        )


def _doubts_of_counts(summary: LoadFigures, case: LoadCase) -> Iterator[str]:
    quantile = case.scenario.quantile
    if quantile is None:
        return
    least = early_stopping.least_requests(quantile)
    if summary.requests < least:
        yield (
            f"{summary.requests} requests do not bound a p{quantile * 100:g}: {least} do at 99 % confidence, "
            "so measure longer (--load-seconds)"
        )
    elif case.scenario is LoadScenario.SERVER and summary.valid is None:
        yield "the requests do not show whether the bound is kept: measure longer (--load-seconds)"


def _doubts_of_machine(summary: LoadFigures, conditions: LoadConditions) -> Iterator[str]:
    harness, load = conditions.harness_per_s, conditions.load
    if harness is not None and summary.throughput_per_s and harness < _HARNESS * summary.throughput_per_s:
        yield (
            f"a model that computes nothing gives {harness:.0f} samples a second in the same way: "
            "the throughput is that of the harness and the protocol"
        )
    if load is not None and load.other_cores > 0.25 * load.cores:
        yield f"other programs used {load.other_cores:.1f} of {load.cores} cores: measure on a quiet machine"
