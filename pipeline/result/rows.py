"""Rows of run.json from the results of the stages."""

from __future__ import annotations

from collections.abc import Sequence

from ...models.artifact import read_artifact
from ...models.signature import Signature
from ...models.store import digest_of, size_of
from ..drift.rules import status_of
from ..plan.router import TargetResult
from .run_folder import artifact_path
from .schema import ArtifactRow, DriftRow, SignatureRow, Status, TensorRow


def artifact_row(result: TargetResult, drift: Sequence[DriftRow]) -> ArtifactRow:
    """Return the row of a wanted target, with the status that its drift rows give it."""
    target, stored = result.target, result.stored
    artifact = read_artifact(stored.folder) if stored and result.route else None
    return ArtifactRow(
        name=str(target),
        format=str(target.format),
        precision=str(target.precision),
        path=artifact_path(target) if artifact else None,
        sha256=digest_of(artifact.path) if artifact else None,
        bytes=size_of(artifact.path) if artifact else None,
        status=status_of([row for row in drift if row.artifact == str(target)]) if artifact else Status.FAILED,
        route=result.route.names if artifact and result.route else (),
        tried=result.tried,
        seconds=result.seconds,
        signature=signature_row(artifact.signature) if artifact else None,
        batches_verified=result.batches if artifact else (),
        flex=artifact.flex if artifact else (),
    )


def signature_row(signature: Signature) -> SignatureRow:
    """Return a signature as run.json has it."""
    inputs, outputs = (
        tuple(TensorRow(spec.name, spec.dtype, spec.shape) for spec in specs)
        for specs in (signature.inputs, signature.outputs)
    )
    return SignatureRow(inputs, outputs)
