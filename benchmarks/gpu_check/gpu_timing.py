"""Clocks of the measured process: calls from host to host, on the device between CUDA events, and copies apart."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np

WINDOW_NS, WINDOW_CALLS = 30_000_000, 3  # of the warm-up, at least; as in pipeline/measure/bench/subject.py
STILL_WINDOWS, FASTER = 3, 0.02
MOST_WARM_NS = 2_000_000_000
COPIES = 10
EVENTS_S, LEAST_EVENTS, MOST_EVENTS = 0.1, 5, 200

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class BoundCalls:
    """One runtime's calls on one input.
    host: host arrays in, host arrays out, done when it returns. device: input and outputs stay on the device; it may
    return before the work is done. copy_in, copy_out: the copies that `host` holds, each done when it returns;
    copy_in_pinned: from page-locked memory. None: this runtime offers no such call."""

    host: Callable[[], Sequence[Any]]
    device: Call
    copy_in: Call | None
    copy_out: Call | None
    copy_in_pinned: Call | None
    bytes_in: int


class DeviceTimer(Protocol):
    """Times calls on the device."""

    name: str

    def seconds(self, call: Call, calls: int) -> list[float]:
        """The seconds of each of `calls` calls."""

    def synchronise(self) -> None:
        """Wait until the device has done all its work."""


class EventTimer:
    """CUDA events on one stream, before and after each call; read after all calls are done. A call's time holds the
    gaps in which the device waits for the host to launch, and no copy."""

    name = "cuda-events"

    def __init__(self, torch: Any, stream: Any = None) -> None:
        self._cuda = torch.cuda
        self._stream = stream

    def seconds(self, call: Call, calls: int) -> list[float]:
        """See DeviceTimer."""
        stream = self._stream or self._cuda.current_stream()
        pairs = [(self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)) for _ in range(calls)]
        self.synchronise()
        for before, after in pairs:
            before.record(stream)
            call()
            after.record(stream)
        self.synchronise()
        return [before.elapsed_time(after) / 1e3 for before, after in pairs]  # it tells milliseconds

    def synchronise(self) -> None:
        """See DeviceTimer."""
        self._cuda.synchronize()


class HostTimer:
    """The host's clock around a call and a wait for the device: where there are no events, as on a CPU."""

    def __init__(self, wait: Call = lambda: None, clock_ns: Callable[[], int] = perf_counter_ns) -> None:
        self.name = "host-clock"
        self._wait, self._clock_ns = wait, clock_ns

    def seconds(self, call: Call, calls: int) -> list[float]:
        """See DeviceTimer."""
        samples = []
        self._wait()
        for _ in range(calls):
            started = self._clock_ns()
            call()
            self._wait()
            samples.append((self._clock_ns() - started) / 1e9)
        return samples

    def synchronise(self) -> None:
        """See DeviceTimer."""
        self._wait()


def host_seconds(call: Call, calls: int, clock_ns: Callable[[], int] = perf_counter_ns) -> list[float]:
    """Time calls with the host's clock, the collector off."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        samples = []
        for _ in range(calls):
            started = clock_ns()
            call()
            samples.append((clock_ns() - started) / 1e9)
        return samples
    finally:
        if was_on:
            gc.enable()


def warm_up(call: Call, clock_ns: Callable[[], int] = perf_counter_ns) -> list[list[float]]:
    """Call until three windows in turn were not 2 % faster than the fastest before, or for 2 s. Return the seconds of
    each window's calls."""
    windows: list[list[float]] = []
    fastest, still, total = math.inf, 0, 0.0
    while still < STILL_WINDOWS and total < MOST_WARM_NS / 1e9:
        window: list[float] = []
        while sum(window) < WINDOW_NS / 1e9 or len(window) < WINDOW_CALLS:
            window.extend(host_seconds(call, 1, clock_ns))
        windows.append(window)
        total += sum(window)
        still = 0 if median(window) < (1 - FASTER) * fastest else still + 1
        fastest = min(fastest, median(window))
    return windows


def event_calls(call_s: float) -> int:
    """How many calls are timed on the device: a tenth of a second of them, between 5 and 200."""
    return max(LEAST_EVENTS, min(MOST_EVENTS, math.ceil(EVENTS_S / max(call_s, 1e-9))))


def time_copies(calls: BoundCalls) -> dict[str, float | None]:
    """Return the median seconds of the copy in, out, and in from page-locked memory, each alone."""
    return {
        name: median(host_seconds(copy, COPIES)) if copy else None
        for name, copy in (("in_s", calls.copy_in), ("out_s", calls.copy_out), ("in_pinned_s", calls.copy_in_pinned))
    }


def sqnr_db(answer: Any, reference: Any) -> float | None:
    """Return the signal over the noise in decibels: 10 log10(sum r^2 / sum (r - a)^2). None for equal arrays; -inf for
    an answer that is not finite or of another shape."""
    answer, reference = np.asarray(answer, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if answer.shape != reference.shape or not np.isfinite(answer).all():
        return -math.inf
    noise = float(np.sum((reference - answer) ** 2))
    signal = float(np.sum(reference**2))
    if noise == 0:
        return None
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf
