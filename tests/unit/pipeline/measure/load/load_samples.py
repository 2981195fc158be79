"""Requests and connections for the tests of load, on a clock that only moves when it is told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from transload.pipeline.measure.load.load_records import LoadRecords, RequestStatus
from transload.pipeline.measure.load.load_runner import Clock


class FakeTime:
    """Time that passes by sleeping and by answering."""

    def __init__(self) -> None:
        self.at = 1000.0

    def clock(self) -> Clock:
        return Clock(lambda: self.at, self.sleep)

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.at += seconds

    def answering(self, seconds: Callable[[int], float], errors: Mapping[int, Exception] | None = None):
        """A connection whose request N takes seconds(N), and ends with an error where there is one."""

        def ask(number: int) -> None:
            self.at += seconds(number)
            if error := (errors or {}).get(number):
                raise error

        return ask


def records(intended: ArrayLike, sent: ArrayLike, done: ArrayLike, lost: Sequence[int] = ()) -> LoadRecords:
    times = [np.asarray(values, dtype=np.float64) for values in (intended, sent, done)]
    status = np.zeros(len(times[0]), dtype=np.uint8)
    status[list(lost)] = RequestStatus.LOST
    return LoadRecords(times[0], times[1], times[2], status)
