"""The one shape of work: read input folders, write one output folder, return facts.

Training, capturing, converting, answering, validating are all of this shape, so that one engine can
cache, isolate, time and repeat them, here or on another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Job:
    """What a step is given. It runs in a process of its own, whose cwd is a private scratch folder."""

    inputs: Mapping[str, Path]  # folders, by the name that the step knows them by; read only
    out: Path  # an empty folder: what lies in it afterwards is the step's result
    options: Mapping[str, Any] = field(default_factory=dict)  # JSON values
    services: Mapping[str, str] = field(default_factory=dict)  # addresses of servers; they differ from run to run
    checkpoints: Path | None = None  # outlives a kill: where a long step keeps what it would go on from


Work: TypeAlias = Callable[[Job], Mapping[str, Any]]  # the facts returned are JSON values
