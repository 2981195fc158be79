"""A run as an argument: a folder under runs/."""

from __future__ import annotations

from pathlib import Path

from ....models.errors import BadRequest
from ...drift.metrics.outcomes import read_outcomes
from ..schema import RunResult, read_result
from .release_metric import Release

_RUN_FILE = "run.json"


def read_release(folder: Path) -> Release:
    """Read the result of a run with the outcomes that it kept, as `read_run` does."""
    return Release(read_run(folder), read_outcomes(folder))


def read_run(folder: Path) -> RunResult:
    """Read the result of a run. Raises BadRequest where the folder is none, holds none, or the run was cut off."""
    if not folder.is_dir():
        raise BadRequest(f"{folder} is no folder of a run", fix="name a folder under runs/")
    if not (folder / _RUN_FILE).is_file():
        if (folder / "plan.json").is_file():
            fix = "do the run again: what it finished is not done twice"
            raise BadRequest(f"{folder} holds a run that was cut off before its result was written", fix=fix)
        raise BadRequest(f"{folder} holds no run: there is no {_RUN_FILE} in it", fix="name a folder under runs/")
    return read_result(folder / _RUN_FILE)
