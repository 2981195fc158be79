"""Settings of this machine: where runs and the store lie, and how many workers run at once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from .context import cores

STORE_VARIABLE = "TRANSLOAD_STORE"


@dataclass(frozen=True)
class LocalSettings:
    """The folders that a command works in, and its number of workers side by side."""

    store: Path = field(default_factory=lambda: Path(os.environ.get(STORE_VARIABLE) or ".transload"))
    runs: Path = Path("runs")
    jobs: int = field(default_factory=lambda: min(cores(), 4))

    @staticmethod
    def with_defaults(store: Path | None, runs: Path | None = None, jobs: int | None = None) -> LocalSettings:
        """Return the settings of a command line: the defaults where an option is None."""
        default = LocalSettings()
        return LocalSettings(store or default.store, runs or default.runs, jobs or default.jobs)
