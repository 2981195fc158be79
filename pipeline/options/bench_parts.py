"""The parts of a bench that a caller may ask for beside the measurement itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Load to put on runtimes, in the words of docs/bench.md."""

    cases: Sequence[str] = ()  # as "closed:1,2,4" or "poisson:100"
    seconds: float | None = None  # of each measurement
    engines: Sequence[str] | None = None  # what sends the requests: "transload", "loadgen"

    def section(self) -> dict[str, Any]:
        """Return the keys of [bench] in a pipeline file."""
        return {"load": self.cases or None, "load_seconds": self.seconds, "load_engines": self.engines}


@dataclass(frozen=True, kw_only=True)
class TuningOptions:
    """A search of each runtime's settings. What wins is kept in tuning.json beside the artifact."""

    budget_s: float | None = None  # at most, for each artifact in each runtime
    latency_bound_s: float | None = None  # also find the batch size of most throughput with a p99 below this

    def section(self) -> dict[str, Any]:
        """Return the keys of [bench] in a pipeline file."""
        return {"tune": True, "tune_budget_s": self.budget_s, "latency_bound_s": self.latency_bound_s}
