"""Waiting for the signal that ends a server."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Whether SIGINT or SIGTERM has come.

    The interpreter writes the number of each signal to a socket (signal.set_wakeup_fd). A handler in Python would be
    too late: it runs in the main thread, which does not leave a lock's wait for a signal that came as it went in."""

    def __init__(self, numbers: socket.socket) -> None:
        self._numbers = numbers
        self._come = False

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until a signal comes, or `seconds` have passed. Return whether one of those that end a server has."""
        if not self._come and select.select([self._numbers], [], [], seconds)[0]:
            self._come = any(number in _ENDING for number in self._numbers.recv(4096))
        return self._come


@contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """Yield what SIGINT and SIGTERM reach, in place of ending this process. For the main thread."""
    numbers, written = socket.socketpair()
    with numbers, written:
        written.setblocking(False)
        former_fd = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
        former = {number: signal.signal(number, lambda *_: None) for number in _ENDING}
        try:
            yield StopSignal(numbers)
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(former_fd)
