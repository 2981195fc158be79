"""Options and facts of the searches for a minimal repro, for both sides of the process border."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...models.job import Facts, JsonRecord


@dataclass(frozen=True, kw_only=True)
class SearchOptions(JsonRecord):
    """The failing step, and how long a search for a piece may take."""

    step: str
    reason: str  # why the artifact was refused
    chain: tuple[tuple[str, Mapping[str, Any]], ...]  # entry and options of each step that a piece goes through
    target: str
    least_db: float
    seconds: float  # for all trials together
    model: str
    requires: tuple[str, ...] = ()  # libraries whose versions the script names


@dataclass(frozen=True, kw_only=True)
class PieceFacts(Facts):
    """The smallest piece that was found, and how it fails."""

    complete: bool  # whether the search came to its end in time
    operators: int | None  # of a graph or an exported program; None for a module
    operator: str
    where: str
    line: str | None
    kind: str  # of the failure: the error's class, or trial.WRONG
    message: str
    fix: str
    unopened_by: str = ""  # the runtime that could not open the piece's artifact
    size_refused: bool = False  # it fails at sizes that its program excludes
