"""Requests over connections: what is intended, sent and answered when."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from transload.models.errors import BadRequest, SessionLost, SessionOverloaded, SessionTimeout
from transload.pipeline.measure.load.arrivals import constant_arrivals
from transload.pipeline.measure.load.load_records import RequestStatus
from transload.pipeline.measure.load.load_runner import Clock, run_at_once, run_closed, run_open

from .load_samples import FakeTime


def test_a_closed_loop_sends_when_it_has_the_answer() -> None:
    time = FakeTime()
    result = run_closed([time.answering(lambda _: 0.25)], 1.0, time.clock())
    assert result.sent_s.tolist() == [0, 0.25, 0.5, 0.75]
    assert result.done_s.tolist() == [0.25, 0.5, 0.75, 1]
    assert np.array_equal(result.intended_s, result.sent_s)


def test_an_open_loop_counts_from_the_intended_time() -> None:
    """One request stalls for a second; the ten behind it waited for it, and say so (coordinated omission)."""
    time = FakeTime()
    ask = time.answering(lambda number: 1.0 if number == 5 else 0.01)
    result = run_open([ask], constant_arrivals(10, 3), time.clock())
    latencies = result.done_s - result.intended_s
    assert np.allclose(result.intended_s, np.arange(30) / 10)
    assert np.allclose(latencies[:5], 0.01)
    assert np.allclose(latencies[5:16], [1.0, *(1.0 - 0.1 * late + 0.01 * (late + 0) for late in range(1, 11))])
    assert np.allclose(latencies[17:], 0.01)
    assert int(np.sum(result.latencies_s > 0.02)) == 11
    from_sending = result.done_s - result.sent_s
    assert int(np.sum(from_sending > 0.02)) == 1  # what a closed look at it would have said


def test_a_request_is_never_sent_early() -> None:
    time = FakeTime()
    result = run_open([time.answering(lambda _: 0.001)], np.array([0.5, 0.5, 2.0]), time.clock())
    assert np.all(result.sent_s >= result.intended_s)
    assert np.allclose(result.sent_s, [0.5, 0.501, 2.0])


def test_what_cannot_be_sent_in_twice_the_time_is_given_up() -> None:
    time = FakeTime()
    result = run_open([time.answering(lambda _: 1.0)], constant_arrivals(10, 2), time.clock())
    assert result.count(RequestStatus.OK) == 4  # sent at 0, 1, 2 and 3 of 3.8 s
    assert result.count(RequestStatus.TIMEOUT) == 16
    assert np.all(np.isnan(result.sent_s[4:]))
    assert np.all(np.isinf(result.latencies_s[4:]))


def test_every_request_of_an_offline_load_is_intended_at_the_start() -> None:
    time = FakeTime()
    result = run_at_once([time.answering(lambda _: 0.5)], 4, 10.0, time.clock())
    assert result.intended_s.tolist() == [0, 0, 0, 0]
    assert result.done_s.tolist() == [0.5, 1, 1.5, 2]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadRequest("no", fix="x"), RequestStatus.REFUSED),
        (SessionOverloaded("too many", fix="x"), RequestStatus.REFUSED),
        (SessionTimeout("late", fix="x"), RequestStatus.TIMEOUT),
        (SessionLost("gone", fix="x"), RequestStatus.LOST),
        (RuntimeError("a runtime's own"), RequestStatus.LOST),
    ],
)
def test_a_request_without_an_answer_has_its_status_and_the_next_one_is_sent(
    error: Exception, status: RequestStatus
) -> None:
    time = FakeTime()
    ask = time.answering(lambda _: 0.1, {1: error})
    result = run_open([ask], constant_arrivals(1, 3), time.clock())
    assert result.status.tolist() == [0, status, 0]
    closed = run_closed([FakeTime().answering(lambda _: 0.1)], 0.0, time.clock())
    assert len(closed) == 0


def test_a_lost_connection_is_not_asked_a_million_times() -> None:
    time = FakeTime()
    gone = dict.fromkeys(range(1000), SessionLost("gone", fix="x"))
    assert len(run_closed([time.answering(lambda _: 0.0, gone)], 1.0, time.clock())) <= 101


def test_connections_work_side_by_side_and_share_the_schedule() -> None:
    """Three requests at once over three connections: each waits until all three are there."""
    barrier = threading.Barrier(3)
    asked: list[int] = []

    def ask(number: int) -> None:
        barrier.wait(timeout=30)
        asked.append(number)

    result = run_open([ask, ask, ask], np.zeros(6), Clock())
    assert sorted(asked) == list(range(6))
    assert result.count(RequestStatus.OK) == 6
