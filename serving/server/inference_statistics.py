"""Counts and times of inferences by version, as the Open Inference Protocol's statistics extension tells them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

from .pending_records import PendingRecords


@dataclass(slots=True)
class Duration:
    """How often something happened, and how long it took in all."""

    count: int = 0
    ns: int = 0

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
    answered: list[Duration] = field(init=False)  # what an answer counts for: the whole, and each step

    def __post_init__(self) -> None:
        """Find them once."""
        self.answered = [self.durations[part] for part in ("success", *_STEPS)]

    def to_json(self) -> dict[str, Any]:
        """Return the fields of a ModelStatistics message."""
        return {
            "last_inference": self.last_inference_ms,
            "inference_count": self.samples,
            "execution_count": self.durations["compute_infer"].count,
            "inference_stats": {part: duration.to_json() for part, duration in self.durations.items()},
        }


class Stopwatch:
    """The steps of one inference, in the order of _STEPS. It counts the inference when the last has ended, or as failed
    where a `with` block of it raises."""

    __slots__ = ("_marks_ns", "_statistics", "ended_ns", "key", "samples")

    def __init__(self, statistics: InferenceStatistics, key: tuple[str, int]) -> None:
        self.samples = 1
        self.ended_ns = 0  # of the Unix clock
        self.key = key
        self._statistics = statistics
        self._marks_ns = [time.perf_counter_ns()]  # the beginning, and the end of each step

    def lap(self) -> None:
        """End a step, and begin the next."""
        marks = self._marks_ns
        marks.append(time.perf_counter_ns())
        if len(marks) > len(_STEPS):
            self._statistics.add(self)

    def split_lap(self, seconds: float) -> None:
        """End two steps, the second of which has taken `seconds`."""
        now = time.perf_counter_ns()
        self._marks_ns += (max(now - int(seconds * 1e9), self._marks_ns[-1]), now)

    @property
    def laps_ns(self) -> list[int]:
        """How long each step has taken."""
        return [end - start for start, end in pairwise(self._marks_ns)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._statistics.add_failed(self.key, time.perf_counter_ns() - self._marks_ns[0])


class InferenceStatistics:
    """The statistics of a server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, int], InferenceCounts] = {}
        self._pending = PendingRecords(self._count)

    def of(self, name: str, number: int) -> dict[str, Any]:
        """Return the statistics of a version."""
        self._pending.flush()
        with self._lock:
            return self._find((name, number)).to_json()

    def start(self, name: str, number: int) -> Stopwatch:
        """Begin an inference of a version, whose first step is decoding."""
        return Stopwatch(self, (name, number))

    def add(self, watch: Stopwatch) -> None:
        """Count an inference whose steps have ended."""
        watch.ended_ns = time.time_ns()
        self._pending.add(watch)

    def _count(self, watch: Stopwatch) -> None:
        laps_ns = watch.laps_ns
        with self._lock:
            counts = self._find(watch.key)
            counts.last_inference_ms = max(watch.ended_ns // 1_000_000, counts.last_inference_ms)
            counts.samples += watch.samples
            for part, ns in zip(counts.answered, (sum(laps_ns), *laps_ns), strict=True):
                part.count += 1
                part.ns += ns

    def add_failed(self, key: tuple[str, int], ns: int) -> None:
        """Count an inference that has failed after `ns`."""
        with self._lock:
            counts = self._find(key)
            counts.last_inference_ms = time.time_ns() // 1_000_000
            counts.durations["fail"].count += 1
            counts.durations["fail"].ns += ns

    def _find(self, key: tuple[str, int]) -> InferenceCounts:
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = InferenceCounts()
        return counts
