"""Which processes of models keep the memory of large requests.

ONNX Runtime's and oneDNN's arenas and TFLite's tensors stay as large as the largest batch has made them: a request of
10 MB turned 84 MB into 1537. No runtime gives it back when asked, so a process that has grown is replaced by a new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .served_version import ServedVersion

_RATIO = 1.2  # of the memory when the model was loaded, to which it is to return
_LEAST_BYTES = 64 << 20  # of growth, which is worth a new process
_AFTER_S = 3.0  # since the last large request
_FIRST_WAIT_S, _LONGEST_WAIT_S = 30.0, 3600.0  # between two new processes of one version, each twice the one before


class ProcessGrowth:
    """Compares the memory of served versions with what it was when they were loaded."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits: dict[tuple[str, int], tuple[float, float]] = {}  # until when a version keeps its process; its wait

    def describe(self, served: ServedVersion) -> str | None:
        """Return how much a version's process has grown, where it is to be replaced now; else None."""
        size, first = served.resident_bytes, served.loaded_bytes
        key, now = (served.name, served.number), self._clock()
        end, wait_s = self._waits.get(key, (now, _FIRST_WAIT_S))
        if size <= max(_RATIO * first, first + _LEAST_BYTES) or now < max(served.last_large_at + _AFTER_S, end):
            return None
        self._waits[key] = now + wait_s, min(2 * wait_s, _LONGEST_WAIT_S)
        return f"{size / 1e6:.0f} MB after large requests, {first / 1e6:.0f} MB when it was loaded"
