"""A limit of the time that a model file takes to be opened and for each answer: some hold a loop without an end."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence

from ...models.probes.thresholds import Hear
from ...models.signature import Array, Signature
from ...serving.session import Session, WatchedSession, WideningSession

# How much longer than the first call a later one may take, per element of its inputs. The first one compiles, and is
# mostly the slowest; a loop whose length the inputs decide may take longer afterwards.
_LATER_CALL = 100


class CallTimeLimit:
    """Lets the kernel end this process where a model does not answer in time.
    The first answer, with the opening of the model before it, has `seconds`; each later call has as much again, and 100
    times what the first one took, in proportion to its inputs. None: no limit.
    SIGALRM keeps its own effect: runtimes loop in C code, which no handler in Python interrupts. The parent, which
    sends no such signal, takes that end for a time-out (workers/isolation.py)."""

    def __init__(self, seconds: float | None = None, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock_s = clock_s
        self._first_s_per_element: float | None = None
        if seconds is not None:
            former_s = signal.alarm(0)  # of the whole step
            self._step_end_s = clock_s() + former_s if former_s else math.inf
            self._set_alarm(seconds)

    def run(self, session: Session, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Call the model within the limit. An error in place of the first answer leaves the time of that running."""
        if self._seconds is None:
            return session.run(feeds)
        elements = max(1, sum(array.size for array in feeds.values()))
        start_s = self._clock_s()
        if self._first_s_per_element is None:
            answers = session.run(feeds)
            self._first_s_per_element = (self._clock_s() - start_s) / elements
            self._clear_alarm()
            return answers
        self._set_alarm(self._seconds + _LATER_CALL * self._first_s_per_element * elements)
        try:
            return session.run(feeds)
        finally:
            self._clear_alarm()

    def _set_alarm(self, seconds: float) -> None:
        """Set the alarm, at the end of the step at the latest."""
        signal.alarm(max(1, math.ceil(min(seconds, self._step_end_s - self._clock_s()))))

    def _clear_alarm(self) -> None:
        """Set the alarm to the end of the step, where it has one."""
        left_s = self._step_end_s - self._clock_s()
        signal.alarm(0 if left_s == math.inf else max(1, math.ceil(left_s)))


class LimitedSession:
    """A session each of whose calls has a limit of time."""

    def __init__(self, inner: Session, limit: CallTimeLimit) -> None:
        self._inner, self._limit = inner, limit
        self.signature: Signature = inner.signature

    @property
    def device(self) -> str:
        """See serving.session.Session.device."""
        return self._inner.device

    @property
    def table_rows(self) -> Sequence[int]:
        """How many rows the tables of the model may have; empty where it cannot tell."""
        rows: Sequence[int] = getattr(self._inner, "table_rows", ())
        return rows

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """See serving.session.Session.run."""
        return self._limit.run(self._inner, feeds)

    def close(self) -> None:
        """See serving.session.Session.close."""
        self._inner.close()


class LimitedWideningSession(LimitedSession):
    """A session that can answer in float64 and be watched, each of whose calls has a limit of time."""

    def __init__(self, inner: WideningSession, limit: CallTimeLimit) -> None:
        super().__init__(inner, limit)
        self._widening = inner

    def widen(self, noise: float = 0.0, seed: int = 0) -> None:
        """See serving.session.WideningSession.widen."""
        self._widening.widen(noise, seed)

    def watch(self, feeds: Mapping[str, Array], hear: Hear) -> None:
        """See serving.session.WatchedSession.watch. The model has answered alike inputs before."""
        if isinstance(self._widening, WatchedSession):
            self._widening.watch(feeds, hear)


def limit_calls(session: Session, limit: CallTimeLimit) -> Session:
    """Return the session with a limit of the time of each call."""
    if isinstance(session, WideningSession):
        return LimitedWideningSession(session, limit)
    return LimitedSession(session, limit)
