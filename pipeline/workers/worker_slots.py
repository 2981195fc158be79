"""How many workers there are at once, over all the models of a command.

At most `jobs`; and beside another none is started while the machine has less than LEAST_FREE_BYTES of memory to give. A
worker that is alone always starts: waiting would not make the machine larger. What a worker will need nobody knows
before it ran, so its limit (isolation.py) stays what ends it; this only keeps many from starting at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psutil

LEAST_FREE_BYTES = 2 << 30  # TensorFlow alone, with a small model, takes 0.6 GB; its converter twice that
_LOOK_AGAIN_S = 0.5


def _free_bytes() -> int:
    return int(psutil.virtual_memory().available)


class WorkerSlots:
    """Places for workers. Thread-safe."""

    def __init__(
        self, jobs: int, *, least_free_bytes: int = LEAST_FREE_BYTES, free_bytes: Callable[[], int] = _free_bytes
    ) -> None:
        self.count = jobs
        self._least = least_free_bytes
        self._free = free_bytes
        self._running = 0
        self._changed = threading.Condition()
        self._stops: list[Callable[[], None]] = []

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """One place, waited for, until the end of the block."""
        with self._changed:
            while not self._may_start():
                self._changed.wait(_LOOK_AGAIN_S)  # memory comes free without telling anybody
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify()

    def on_stop(self, stop: Callable[[], None]) -> None:
        """What ends the workers of one of the models."""
        self._stops.append(stop)

    def stop(self) -> None:
        """End the workers of all of them."""
        for stop in list(self._stops):
            stop()

    def _may_start(self) -> bool:
        return self._running == 0 or (self._running < self.count and self._free() >= self._least)
