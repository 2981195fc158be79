"""Memory that large requests took is given back to the system. glibc keeps what was freed below the top of its heap."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress

_LARGE_BYTES = 1 << 20  # of a request and its answer, from which on it is worth the call
_M_MMAP_THRESHOLD = -3  # malloc.h
_DELAY_S = 0.2  # until what the request held is free; requests that follow each other share one call


def trim_heap() -> None:
    """Give free pages of the heap back to the system."""
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


def map_large_blocks() -> None:
    """Have each large block mapped by itself from now on, so that it goes back when it is freed. By itself, glibc takes
    blocks as large as those that were freed once from the heaps of threads, whose tops no trimming reaches."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


class HeapTrimmer:
    """Trims the heap a moment after large requests. Thread-safe."""

    def __init__(self, delay_s: float = _DELAY_S, trim: Callable[[], None] = trim_heap) -> None:
        self._delay_s, self._trim_heap = delay_s, trim
        self._lock = threading.Lock()
        self._is_due = False

    def add_request(self, size: int) -> None:
        """Note a request of `size` bytes, its answer among them."""
        if size < _LARGE_BYTES:
            return
        with self._lock:
            if self._is_due:
                return
            self._is_due = True
        timer = threading.Timer(self._delay_s, self._trim)
        timer.daemon = True
        timer.start()

    def _trim(self) -> None:
        with self._lock:
            self._is_due = False
        self._trim_heap()
