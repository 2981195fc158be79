"""What a run leaves: the folder runs/<id>/ (result, reports, artifacts, logs, repeat scripts), and artifacts' rows."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ...models.artifact import read_artifact
from ...models.signature import Signature
from ...models.store import Stored, digest_of, disk_errors, size_of
from ...models.whole_files import link_folder_whole
from ..drift.rules import status_of
from ..plan.router import TargetResult
from .schema import ArtifactRow, DriftRow, LatencyRow, RunResult, SignatureRow, Status, TensorRow, WeightsRow

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


def publish_artifacts(folder: Path, source: Stored, results: Sequence[TargetResult]) -> None:
    """Make artifacts/<target> and artifacts/source: folders of plain files, which the store shares on its own disk."""
    artifacts = folder / ARTIFACTS
    artifacts.mkdir(exist_ok=True)
    link_folder_whole(source.folder, artifacts / "source")
    for result in results:
        if result.stored:
            link_folder_whole(result.stored.folder, artifacts / result.target.slug)


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


def artifact_row(result: TargetResult, drift: Sequence[DriftRow]) -> ArtifactRow:
    """Return the row of a wanted target, with the status that its drift rows give it."""
    target, stored = result.target, result.stored
    artifact = read_artifact(stored.folder) if stored and result.route else None
    stored_weights = result.precision.weights if artifact and result.precision else ()
    return ArtifactRow(
        name=result.name,
        format=str(target.format),
        precision=str(target.precision),
        path=f"{ARTIFACTS}/{target.slug}/{target.format.spec.payload}" if artifact else None,
        sha256=digest_of(artifact.path) if artifact else None,
        bytes=size_of(artifact.path) if artifact else None,
        status=_status(result, drift) if artifact else Status.FAILED,
        route=result.route.names if artifact and result.route else (),
        tried=result.tried,
        seconds=result.seconds,
        signature=signature_row(artifact.signature) if artifact else None,
        batches_verified=result.batches if artifact else (),
        flex=artifact.flex if artifact else (),
        weights=tuple(WeightsRow(row.dtype, row.tensors, row.bytes) for row in stored_weights),
    )


def served_row(name: str, drift: Sequence[DriftRow]) -> ArtifactRow:
    """Return the row of a model that is served elsewhere, for the gate: its format is its server's affair."""
    return ArtifactRow(
        name=name,
        format="",
        precision="",
        path=name,
        sha256=None,
        bytes=None,
        status=status_of([row for row in drift if row.artifact == name]),
        route=(),
        tried=(),
        seconds=0.0,
        signature=None,
        batches_verified=(),
    )


def _status(result: TargetResult, drift: Sequence[DriftRow]) -> Status:
    """Return the status by the artifact's drift rows; a copy that holds nothing of its precision is never verified."""
    status = status_of([row for row in drift if row.artifact == result.name])
    reduced = result.precision is None or result.precision.is_reduced_to(result.target.precision)
    return status if reduced or status is Status.FAILED else Status.UNVERIFIED


def signature_row(signature: Signature) -> SignatureRow:
    """Return a signature as run.json has it."""
    inputs, outputs = (
        tuple(TensorRow(spec.name, spec.dtype, spec.shape) for spec in specs)
        for specs in (signature.inputs, signature.outputs)
    )
    return SignatureRow(inputs, outputs)
