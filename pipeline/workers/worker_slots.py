"""The number of workers at once, over all the models of a command.

At most `jobs` run. A second one does not start while less than LEAST_FREE_BYTES of memory is free. A worker that is
alone always starts, as waiting would not make the machine larger. Nobody knows beforehand what a worker needs:
its memory limit (isolation.py) ends it, and the slots only keep many from starting at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import psutil

from .user_quota import UserQuota

LEAST_FREE_BYTES = 2 << 30  # TensorFlow alone, with a small model, takes 0.6 GB; its converter twice that
_LOOK_AGAIN_S = 0.5


def _free_bytes() -> int:
    return int(psutil.virtual_memory().available)


class WorkerSlots:
    """Slots for workers. Thread-safe."""

    def __init__(
        self, jobs: int, *, least_free_bytes: int = LEAST_FREE_BYTES, free_bytes: Callable[[], int] = _free_bytes,
        quota: UserQuota | None = None,
    ) -> None:  # fmt: skip
        self.count = jobs
        self._least = least_free_bytes
        self._free = free_bytes
        self._running = 0
        self._changed = threading.Condition()
        self._stops: list[Callable[[], None]] = []
        self._stopped = False
        self._quota = quota  # of the user, over all processes

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Wait for a slot, and hold it until the end of the block."""
        with self._changed:
            while not self._may_start():
                self._changed.wait(_LOOK_AGAIN_S)  # nobody is told when memory comes free
            self._running += 1
        try:
            with self._quota.occupied(lambda: self._stopped) if self._quota else nullcontext():
                yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify()

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Register what ends the workers of one of the models; at once, if all were stopped already."""
        self._stops.append(stop)
        if self._stopped:
            stop()

    def stop(self) -> None:
        """End the workers of all of them."""
        self._stopped = True
        for stop in list(self._stops):
            stop()

    def _may_start(self) -> bool:
        return self._running == 0 or (self._running < self.count and self._free() >= self._least)
