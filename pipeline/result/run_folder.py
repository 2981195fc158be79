"""The folder that a run leaves: runs/<id>/ with the result, the reports, the artifacts, the logs and repeat scripts."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ...models.formats import PAYLOAD, parse_target
from ...models.store import Stored, disk_errors
from ..plan.router import TargetResult
from .schema import RunResult


def new_run_folder(runs: Path, name: str, now: datetime) -> Path:
    """A new folder runs/<id>; ids sort by time and name the recipe."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"
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


def link_artifacts(folder: Path, source: Stored, made: Sequence[TargetResult]) -> None:
    """artifacts/<target> -> the store's object, and artifacts/source."""
    links = folder / "artifacts"
    links.mkdir(exist_ok=True)
    _link(links / "source", source.folder)
    for each in made:
        if each.stored:
            _link(links / each.target.slug, each.stored.folder)


def artifact_path(each: TargetResult) -> str:
    """The payload of a made target, relative to the run's folder."""
    return f"artifacts/{each.target.slug}/{PAYLOAD[each.target.format]}"


def links(folder: Path, result: RunResult) -> tuple[dict[str, str], dict[str, str]]:
    """What belongs to what in a run's folder, as paths relative to it: the log of "ARTIFACT" and of "ARTIFACT in
    RUNTIME", and the repeat script of each step by its name."""
    logs: dict[str, str] = {}
    for artifact in result.artifacts:
        slug = parse_target(artifact.name).slug
        for log in sorted((folder / "logs").glob(f"*.{slug}.*.log")):
            stage, _, step = log.stem.partition(f".{slug}.")
            name = artifact.name if stage == "convert" else f"{artifact.name} in {step}"
            logs.setdefault(name, f"logs/{log.name}")
    repeat = {file.stem: f"repeat/{file.name}" for file in sorted((folder / "repeat").glob("*.sh"))}
    return logs, repeat


def _link(link: Path, to: Path) -> None:
    """A relative link: a project folder that moves keeps its links."""
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(to, link.parent))
