"""Runs as arguments: a folder under runs/, or for a history a folder that holds several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...models.errors import BadRequest
from ..result.schema import RunResult, read_result

_RUN_FILE = "run.json"


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


def read_runs(folders: Sequence[Path]) -> tuple[list[RunResult], list[Path]]:
    """Read runs, or the runs in folders that hold some, sorted by their start. The second value is the folders of
    runs that were cut off, in folders that hold others. Raises BadRequest as `read_run`, and where there is no run."""
    paths: dict[Path, None] = {}
    cut: list[Path] = []
    for folder in folders:
        inside = sorted(file.parent for file in folder.glob(f"*/{_RUN_FILE}"))
        if (folder / _RUN_FILE).is_file() or not inside:
            inside = [folder]
        else:
            cut += sorted(file.parent for file in folder.glob("*/plan.json") if file.parent not in inside)
        paths |= dict.fromkeys(inside)
    runs = [read_run(path) for path in paths]
    return sorted(runs, key=lambda run: (run.started_at, run.id)), cut
