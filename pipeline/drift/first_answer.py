"""A limit of the time that a model file takes to be opened and to answer once: some hold a loop without an end."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Mapping

from ...models.signature import Array
from ...serving.session import Session


class FirstAnswerLimit:
    """Lets the kernel end this process where no call has returned in time.
    SIGALRM keeps its own effect: runtimes loop in C code, which no handler in Python interrupts. The parent, which
    sends no such signal, takes that end for a time-out (workers/isolation.py)."""

    def __init__(self, seconds: float | None = None) -> None:
        self._started = time.monotonic()
        self._is_on = seconds is not None
        self._former_s = 0 if seconds is None else signal.alarm(math.ceil(seconds))

    def run(self, session: Session, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """Call the model. The first answer ends the limit."""
        answers = session.run(feeds)
        self._end()
        return answers

    def _end(self) -> None:
        """Put the alarm back to what it was before."""
        if self._is_on:
            self._is_on = False
            left = self._former_s - int(time.monotonic() - self._started)
            signal.alarm(max(1, left) if self._former_s else 0)
