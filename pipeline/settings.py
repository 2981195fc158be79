"""Where runs and the store lie, and how much may be done at once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from .context import cores

STORE_VARIABLE = "TRANSLOAD_STORE"


@dataclass(frozen=True)
class Places:
    """The folders of this machine that a command works in. `jobs`: workers side by side."""

    store: Path = field(default_factory=lambda: Path(os.environ.get(STORE_VARIABLE) or ".transload"))
    runs: Path = Path("runs")
    jobs: int = field(default_factory=lambda: min(cores(), 4))

    @staticmethod
    def given(store: Path | None, runs: Path | None = None, jobs: int | None = None) -> Places:
        """The defaults, with what was given on the command line in their place."""
        default = Places()
        return Places(store or default.store, runs or default.runs, jobs or default.jobs)
