"""Counts and times of inferences by version, as the Open Inference Protocol's statistics extension tells them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Duration:
    """How often something happened, and how long it took in all."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int) -> None:
        """Count it once more."""
        self.count += 1
        self.ns += ns

    def to_json(self) -> dict[str, int]:
        """Return {count, ns}."""
        return {"count": self.count, "ns": self.ns}


# The steps of an inference: decoding, the wait for the model, the model, encoding.
_STEPS = ("compute_input", "queue", "compute_infer", "compute_output")
_PARTS = ("success", "fail", *_STEPS, "cache_hit", "cache_miss")  # there is no cache: the last two stay 0


@dataclass(slots=True)
class InferenceCounts:
    """The statistics of one version."""

    last_inference_ms: int = 0  # of the Unix clock
    samples: int = 0
    durations: dict[str, Duration] = field(default_factory=lambda: {part: Duration() for part in _PARTS})

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a ModelStatistics message."""
        return {
            "last_inference": self.last_inference_ms,
            "inference_count": self.samples,
            "execution_count": self.durations["compute_infer"].count,
            "inference_stats": {part: duration.to_json() for part, duration in self.durations.items()},
        }


class Stopwatch:
    """The steps of one inference, in the order of _STEPS."""

    __slots__ = ("_last_ns", "laps_ns", "samples")

    def __init__(self) -> None:
        self.laps_ns: list[int] = []
        self.samples = 1
        self._last_ns = time.perf_counter_ns()

    def lap(self) -> None:
        """End a step, and begin the next."""
        now = time.perf_counter_ns()
        self.laps_ns.append(now - self._last_ns)
        self._last_ns = now


class InferenceStatistics:
    """The statistics of a server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, int], InferenceCounts] = {}

    def of(self, name: str, number: int) -> dict[str, Any]:
        """Return the statistics of a version."""
        with self._lock:
            return self._counts.get((name, number), InferenceCounts()).to_json()

    @contextmanager
    def measured(self, name: str, number: int) -> Iterator[Stopwatch]:
        """Count the inference that the block makes, by its laps; one that raises has failed."""
        watch = Stopwatch()
        try:
            yield watch
        finally:
            self._add(name, number, watch)

    def _add(self, name: str, number: int, watch: Stopwatch) -> None:
        with self._lock:
            counts = self._counts.setdefault((name, number), InferenceCounts())
            counts.last_inference_ms = time.time_ns() // 1_000_000
            if len(watch.laps_ns) < len(_STEPS):
                watch.lap()
                counts.durations["fail"].add(sum(watch.laps_ns))
                return
            counts.samples += watch.samples
            counts.durations["success"].add(sum(watch.laps_ns))
            for step, ns in zip(_STEPS, watch.laps_ns, strict=True):
                counts.durations[step].add(ns)
