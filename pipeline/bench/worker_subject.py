"""A subject that a worker holds (subject.py), as run_rounds sees it. No pydantic: `make gpu-check` uses it as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..workers.isolation import Worker


@dataclass(frozen=True)
class HeldSubject:
    """A worker that has opened a subject. Each method raises what the worker meets."""

    worker: Worker

    def prepare(self, batch: int) -> Mapping[str, Any]:
        """Make feeds and warm up."""
        reply: Mapping[str, Any] = self.worker.ask("prepare", batch=batch)
        return reply

    def chunk(self, batch: int, calls: int) -> Mapping[str, Any]:
        """Seconds of each call."""
        reply: Mapping[str, Any] = self.worker.ask("chunk", batch=batch, calls=calls)
        return reply

    def device(self) -> str:
        """Where it really runs."""
        return str(self.worker.ask("device"))
