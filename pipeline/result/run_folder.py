"""What a run leaves: the folder runs/<id>/ (result, reports, artifacts, logs, repeat scripts), and artifacts' rows."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ...models.atomic_files import link_folder_whole
from ...models.store import Stored, disk_errors
from .schema import DriftRow, LatencyRow, RunResult

ARTIFACTS = "artifacts"  # in a run's folder: a folder for each artifact


def new_run_folder(runs: Path, name: str, now: datetime) -> Path:
    """Make the folder runs/<id>; ids sort by time and name the recipe."""
    slug = slug_of(name)
    with disk_errors(runs, "--out"):
        runs.mkdir(parents=True, exist_ok=True)
        for tail in ("", *(f"-{secrets.token_hex(2)}" for _ in range(8))):
            folder = runs / f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{slug}{tail}"
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
    raise FileExistsError(f"no free name for a run under {runs}")


def slug_of(name: str) -> str:
    """Return a name as the part of a folder's name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"


def publish_artifacts(folder: Path, source: Stored, copies: Mapping[str, Stored]) -> None:
    """Make artifacts/source, and artifacts/<target> of `copies` by their slugs: folders of plain files, which the store
    shares on its own disk."""
    artifacts = folder / ARTIFACTS
    artifacts.mkdir(exist_ok=True)
    link_folder_whole(source.folder, artifacts / "source")
    for slug, stored in copies.items():
        link_folder_whole(stored.folder, artifacts / slug)


def links(folder: Path, result: RunResult) -> tuple[dict[str, str], dict[str, str]]:
    """Return what belongs to what in a run's folder, as paths relative to it.
    First the logs by "ARTIFACT" and "ARTIFACT in RUNTIME" (of the bench, else of the comparison); then the repeat
    script of each step by its name."""
    logs: dict[str, str] = {}
    for artifact in result.artifacts:
        rows = sorted(artifact.tried, key=lambda row: row.route != artifact.route)
        if log := next((row.log for row in rows if row.log), None):
            logs[artifact.name] = log
    pairs: list[DriftRow | LatencyRow] = [*result.drift, *result.latency]
    logs |= {f"{row.artifact} in {row.runtime}": row.log for row in pairs if row.log}
    repeat = {file.stem: f"repeat/{file.name}" for file in sorted((folder / "repeat").glob("*.sh"))}
    return logs, repeat
