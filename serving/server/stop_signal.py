"""Waiting for the signal that ends a server, or has it open its log again."""

from __future__ import annotations

import select
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM)
_HANDLED = (*_ENDING, signal.SIGHUP)


class StopSignal:
    """Whether SIGINT or SIGTERM has come; SIGHUP, too, where nothing is to be done at it (`on_hangup`).

    The interpreter writes the number of each signal to a socket (signal.set_wakeup_fd). A handler in Python would be
    too late: it runs in the main thread, which does not leave a lock's wait for a signal that came as it went in."""

    def __init__(self, numbers: socket.socket, on_hangup: Callable[[], object] | None) -> None:
        self._numbers, self._on_hangup = numbers, on_hangup
        self._ending = _HANDLED if on_hangup is None else _ENDING
        self._come = False

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until a signal comes, or `seconds` have passed. Return whether one of those that end a server has."""
        if not self._come and select.select([self._numbers], [], [], seconds)[0]:
            numbers = self._numbers.recv(4096)
            self._come = any(number in self._ending for number in numbers)
            if self._on_hangup is not None and signal.SIGHUP in numbers:
                self._on_hangup()
        return self._come


@contextmanager
def stop_on_signals(on_hangup: Callable[[], object] | None = None) -> Iterator[StopSignal]:
    """Catch SIGINT, SIGTERM and SIGHUP, which would end this process, and yield what waits for them. For the main
    thread. `on_hangup` is called in `wait` at each SIGHUP."""
    numbers, written = socket.socketpair()
    with numbers, written:
        written.setblocking(False)
        former_fd = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
        former = {number: signal.signal(number, lambda *_: None) for number in _HANDLED}
        try:
            yield StopSignal(numbers, on_hangup)
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(former_fd)
