"""Send requests over connections, and record when each was intended, sent and answered.

In an open loop latency counts from the intended time. Counting from the time of sending would leave out how long a
request waited because the requests before it were slow (coordinated omission, G. Tene, How NOT to Measure Latency).
"""

from __future__ import annotations

import itertools
import math
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from ....models.signature import Array
from .load_records import LoadRecords, RequestStatus, status_of

_THREADS_S = 0.02  # after which threads start together
_PAUSE_S = 0.01  # after a lost request: a server that is gone would be asked a million times
_NEVER = math.nan

Ask = Callable[[int], None]  # sends request number N over one connection and waits; raises where there is no answer


@dataclass(frozen=True, slots=True)
class Clock:
    """The time in seconds, and waiting."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


@dataclass(slots=True)
class _Track:
    """The requests of one connection; `failures` has the status of each that got no answer, by its position."""

    intended: array[float] = field(default_factory=lambda: array("d"))
    sent: array[float] = field(default_factory=lambda: array("d"))
    done: array[float] = field(default_factory=lambda: array("d"))
    failures: dict[int, RequestStatus] = field(default_factory=dict)


def run_closed(connections: Sequence[Ask], seconds: float, clock: Clock = Clock(), most: int = 0) -> LoadRecords:
    """Let each connection send its next request when it has the last answer, until `seconds` have passed; `most`
    limits the requests of a connection, 0: not at all. A request that is under way then is waited for."""
    return _run(connections, lambda ask, track, start: _closed(ask, track, start + seconds, most, clock), clock)


def run_open(connections: Sequence[Ask], arrivals: Array, clock: Clock = Clock()) -> LoadRecords:
    """Send a request at each time of `arrivals` (sorted, shape (requests,)), or as soon after it as a connection is
    free. What cannot be sent by twice the last of these times, or by a second after it, is given up."""
    times = arrivals.tolist()
    schedule = _Schedule(times, times[-1] + max(1.0, times[-1]))
    return _run(connections, lambda ask, track, start: _open(ask, track, start, schedule, clock), clock)


def run_at_once(connections: Sequence[Ask], count: int, limit_s: float, clock: Clock = Clock()) -> LoadRecords:
    """Send `count` requests as fast as the connections take them; what is not sent after `limit_s` is given up."""
    schedule = _Schedule([0.0] * count, limit_s)
    return _run(connections, lambda ask, track, start: _open(ask, track, start, schedule, clock), clock)


@dataclass(frozen=True, slots=True)
class _Schedule:
    """Intended times, which the connections take in turn, and when no more requests are sent."""

    times_s: list[float]
    end_s: float
    tickets: Iterator[int] = field(default_factory=itertools.count)  # next() is one step: no two threads get a number


def _run(connections: Sequence[Ask], drive: Callable[[Ask, _Track, float], None], clock: Clock) -> LoadRecords:
    """Drive each connection in a thread of its own; a single one in this thread."""
    tracks = [_Track() for _ in connections]
    if len(connections) == 1:
        start = clock.now()
        drive(connections[0], tracks[0], start)
        return _records(tracks, start)
    with ThreadPoolExecutor(len(connections)) as threads:
        start = clock.now() + _THREADS_S
        futures = [
            threads.submit(_begin, drive, ask, track, start, clock)
            for ask, track in zip(connections, tracks, strict=True)
        ]
        for future in futures:
            future.result()
    return _records(tracks, start)


def _begin(drive: Callable[[Ask, _Track, float], None], ask: Ask, track: _Track, start: float, clock: Clock) -> None:
    clock.sleep(max(0.0, start - clock.now()))
    drive(ask, track, start)


def _closed(ask: Ask, track: _Track, end: float, most: int, clock: Clock) -> None:
    now, sent_at, done_at = clock.now, track.sent.append, track.done.append
    numbers: Iterator[int] = iter(range(most)) if most else itertools.count()
    for number in numbers:
        sent = now()
        if sent >= end:
            return
        try:
            ask(number)
            done = now()
        except Exception as error:  # noqa: BLE001  (a runtime's own error is a request without an answer, too)
            done = now()
            _fail(track, len(track.sent), error, clock)
        sent_at(sent)
        done_at(done)


def _open(ask: Ask, track: _Track, start: float, schedule: _Schedule, clock: Clock) -> None:
    now, sleep, times = clock.now, clock.sleep, schedule.times_s
    for number in schedule.tickets:
        if number >= len(times):
            return
        intended = start + times[number]
        if (wait := intended - now()) > 0:
            sleep(wait)
        sent = now()
        if sent - start > schedule.end_s:
            track.failures[len(track.sent)] = RequestStatus.TIMEOUT
            sent = done = _NEVER
        else:
            try:
                ask(number)
                done = now()
            except Exception as error:  # noqa: BLE001  (see _closed)
                done = now()
                _fail(track, len(track.sent), error, clock)
        track.intended.append(intended)
        track.sent.append(sent)
        track.done.append(done)


def _fail(track: _Track, at: int, error: Exception, clock: Clock) -> None:
    track.failures[at] = status = status_of(error)
    if status is RequestStatus.LOST:
        clock.sleep(_PAUSE_S)


def _records(tracks: Sequence[_Track], start: float) -> LoadRecords:
    sent = np.concatenate([np.array(track.sent) for track in tracks])
    done = np.concatenate([np.array(track.done) for track in tracks])
    intended = np.concatenate([np.array(track.intended or track.sent) for track in tracks])
    status = np.concatenate([_statuses(track) for track in tracks])
    order = np.argsort(intended, kind="stable")
    return LoadRecords(intended[order] - start, sent[order] - start, done[order] - start, status[order])


def _statuses(track: _Track) -> Array:
    status = np.zeros(len(track.sent), dtype=np.uint8)
    for at, failure in track.failures.items():
        status[at] = failure
    return status
