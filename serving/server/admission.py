"""Which requests a server takes, how many are under way, and how it stops without losing one."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_UNREADY_S = 0.5  # unready and still answering, so that callers go elsewhere before anything is refused
_QUIET_S = 0.1  # without a request, before connections are closed: one on its way would be lost
_MOST_QUIET_S = 1.0  # where callers do not heed the refusals
_POLL_S = 0.02


class Admission:
    """Counts the requests in progress, and decides whether new ones are accepted. Thread-safe.
    Connections stay open while requests are refused: closing one would lose a request that is being sent."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.is_ready = True  # what a health check is told
        self._is_accepting = True
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._period = 0  # see wait_for_earlier
        self._under_way = Counter[int]()  # by the period in which they arrived
        self._arrived = 0

    def enter(self) -> tuple[bool, int]:
        """Count a request. Return whether it is accepted, else it is to be refused; hand the pair to `leave`."""
        with self._lock:
            self._arrived += 1
            self._under_way[self._period] += self._is_accepting
            return self._is_accepting, self._period

    def leave(self, ticket: tuple[bool, int]) -> None:
        """End a request, once."""
        accepted, period = ticket
        with self._lock:
            self._under_way[period] -= accepted

    @contextmanager
    def counted(self) -> Iterator[bool]:
        """Count a request while the block runs. Yields whether it is accepted; else the block is to refuse it."""
        ticket = self.enter()
        try:
            yield ticket[0]
        finally:
            self.leave(ticket)

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return not any(self._under_way.values())

    def wait_for_earlier(self, limit_s: float) -> None:
        """Wait until all requests are answered that are under way now: later ones do not see what was removed before.
        Returns after `limit_s` in any case."""
        with self._lock:
            self._period += 1
            now = self._period

        def is_over() -> bool:
            with self._lock:
                for period in [period for period, count in self._under_way.items() if period < now and not count]:
                    del self._under_way[period]
                return min(self._under_way, default=now) >= now

        self._wait(self._clock() + limit_s, is_over, _POLL_S)

    def drain(self, limit_s: float) -> None:
        """Turn unready, then refuse new requests, and wait until those under way are answered and no more come.
        Returns after `limit_s` in any case, and sooner where callers go on asking."""
        end = self._clock() + limit_s
        self.is_ready = False
        self._sleep(min(_UNREADY_S, limit_s))
        with self._lock:
            self._is_accepting = False
        self._wait(end, lambda: self.is_idle, _POLL_S)
        seen = -1

        def is_quiet() -> bool:
            nonlocal seen
            before, seen = seen, self._arrived
            return seen == before

        self._wait(min(end, self._clock() + _MOST_QUIET_S), is_quiet, _QUIET_S)

    def _wait(self, end: float, is_over: Callable[[], bool], poll_s: float) -> None:
        while not is_over() and self._clock() < end:
            self._sleep(poll_s)
