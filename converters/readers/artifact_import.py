"""Artifacts of a former run, read from untrusted folders."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from ...models.artifact import BESIDE, Artifact, read_artifact
from ...models.errors import BadRequest
from ...models.extensible_table import load_entry
from ...models.job import Job
from ...models.signature import STRINGS
from ..calibrated_ranges import calibrated_ranges
from .file_content import refuse_links
from .file_import import checked_folder
from .reader_records import ArtifactFacts, FileOptions

_MAKE_AGAIN = "make the artifact again"


def import_artifact(job: Job) -> Mapping[str, Any]:
    """Import an artifact folder of a former run: FileOptions -> ArtifactFacts.

    Raises BadRequest if it is no complete artifact, or reading it would leave the folder or run code.
    """
    options = FileOptions.from_json(job.options)
    folder = Path(options.path)
    artifact = read_checked(folder, trust=options.trust)
    checked_folder(options)
    shutil.copytree(folder, job.out, dirs_exist_ok=True, ignore=_leave_out(folder, BESIDE))
    return ArtifactFacts(
        target=str(artifact.target), signature=artifact.signature, flex=artifact.flex,
        calibrated=calibrated_ranges(artifact.path, artifact.target.format),
    ).to_json()  # fmt: skip


def check_artifact(job: Job) -> Mapping[str, Any]:
    """Check the artifact in inputs["artifact"] as `import_artifact` does. Options: trust. Facts: target."""
    return {"target": str(read_checked(job.inputs["artifact"], trust=bool(job.options.get("trust"))).target)}


def read_checked(folder: Path, *, trust: bool = False) -> Artifact:
    """Read and check an artifact from an untrusted folder; `trust` allows operators that do more than compute.

    Raises BadRequest.
    """
    refuse_links(folder, "artifact")
    artifact = read_artifact(folder)
    if not artifact.path.exists():
        raise BadRequest(f"{folder} lacks its {artifact.path.name}", fix=_MAKE_AGAIN)
    if any(spec.dtype == STRINGS for spec in (*artifact.signature.inputs, *artifact.signature.outputs)):
        raise BadRequest(f"{folder} says that it takes or gives text, which no artifact does", fix=_MAKE_AGAIN)
    load_entry(artifact.target.format.spec.checker)(artifact, trust=trust)
    return artifact


def _leave_out(folder: Path, left_out: Collection[str]) -> Callable[[str, list[str]], list[str]]:
    """Return what copytree ignores: these files of the folder itself, which are no part of the artifact."""
    return lambda place, names: [name for name in names if Path(place) == folder and name in left_out]
