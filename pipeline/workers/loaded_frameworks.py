"""Frameworks that are loaded once, in a process each, from which workers are forked."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

from ...models.processors import core_count
from .fork_server import NUMPY, ForkServer
from .isolation import Limits, start_fork_server


class LoadedFrameworks:
    """The fork servers of one command with all its models, or of one node of a cluster. Thread-safe."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._expected: dict[str, Limits] = {}
        self._fork_servers: dict[str, ForkServer] = {}
        self._lock = threading.Lock()

    def expect(self, frameworks: Iterable[str], limits: Limits) -> None:
        """Say which frameworks the coming steps import, beside those that are expected already. Loads none yet."""
        with self._lock:
            self._expected = {**dict.fromkeys(frameworks, limits), **self._expected}

    @property
    def expected(self) -> dict[str, Limits]:
        """What the coming steps import, and the limits of their workers."""
        return dict(self._expected)

    def fork_server(self, framework: str, limits: Limits) -> ForkServer | None:
        """Return what forks the workers with this framework, where it was expected; begin to load all that was.
        NUMPY is expected by itself, with the limits of the first step that asks for it, where a core is left to load it
        beside the others."""
        with self._lock:
            if framework == NUMPY and len(self._expected) < core_count():
                self._expected.setdefault(NUMPY, limits)
            for name, allowed in self._expected.items():
                if name not in self._fork_servers:
                    self._fork_servers[name] = start_fork_server(name, allowed, self._scratch / f"fork_server.{name}")
            return self._fork_servers.get(framework)

    def close(self) -> None:
        """End the processes. Their forks live on."""
        with self._lock:
            fork_servers, self._expected = list(self._fork_servers.values()), {}
            self._fork_servers.clear()
        for fork_server in fork_servers:
            fork_server.close()
