"""Rows of run.json from what the stages found."""

from __future__ import annotations

from collections.abc import Sequence

from ...models.artifact import read_artifact
from ...models.signature import Signature
from ...models.store import digest_of, size_of
from ..drift.rules import status_of
from ..plan.router import TargetResult
from .run_folder import artifact_path
from .schema import ArtifactRow, DriftRow, SignatureRow, Status, TensorRow


def artifact_row(made: TargetResult, drift: Sequence[DriftRow]) -> ArtifactRow:
    """A wanted target, with what its own drift rows make of it."""
    target = made.target
    common = {"name": str(target), "format": str(target.format), "precision": str(target.precision)}
    if made.stored is None or made.route is None:
        return ArtifactRow(
            **common,
            path=None,
            sha256=None,
            bytes=None,
            status=Status.FAILED,
            route=(),
            tried=made.tried,
            seconds=made.seconds,
            signature=None,
            batches_verified=(),
            flex=(),
        )
    artifact = read_artifact(made.stored.folder)
    return ArtifactRow(
        **common,
        path=artifact_path(made),
        sha256=digest_of(artifact.path),
        bytes=size_of(artifact.path),
        status=status_of([row for row in drift if row.artifact == str(target)]),
        route=made.route.names,
        tried=made.tried,
        seconds=made.seconds,
        signature=signature_row(artifact.signature),
        batches_verified=made.batches,
        flex=artifact.flex,
    )


def signature_row(signature: Signature) -> SignatureRow:
    """A signature as run.json has it."""
    return SignatureRow(
        *(
            tuple(TensorRow(spec.name, spec.dtype, spec.shape) for spec in specs)
            for specs in (signature.inputs, signature.outputs)
        )
    )
