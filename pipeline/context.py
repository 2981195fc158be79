"""What the stages of a run share."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from .progress import Progress
from .request import RunRequest
from .workers.engine import LocalExecutor
from .workers.isolation import Limits


@dataclass(frozen=True)
class Context:
    """One run: what was asked, where it works, and who is told."""

    request: RunRequest
    executor: LocalExecutor
    folder: Path  # runs/<id>
    progress: Progress
    device: str  # resolved: "cpu", "cuda" or "cuda:N"
    jobs: int  # workers side by side

    def limits(self, *, device: str = "cpu", loopback: bool = False) -> Limits:
        """What a step of this run may use. A step that talks to a server may reach the one that the request names."""
        return Limits(
            threads=max(1, cores() // self.jobs),
            device=device,
            loopback=loopback,
            host=self.request.tfserving_url.partition(":")[0] if self.request.tfserving_url else None,
        )

    def convert_limits(self) -> Limits:
        """What a conversion may use, by the request: of a foreign converter nobody knows how long it takes."""
        asked = self.request.convert
        return replace(self.limits(), seconds=asked.step_seconds, memory_bytes=int(asked.step_memory_gb * 1e9))

    def model_limits(self) -> Limits:
        """What a person's code may use to make a model and to answer a few calls."""
        return replace(self.convert_limits(), seconds=self.request.model.seconds)

    def training_limits(self, *, loopback: bool) -> Limits:
        """Training takes as long as it takes, and all cores."""
        return replace(self.limits(device=self.device, loopback=loopback), seconds=7 * 86400.0, threads=cores())


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))
