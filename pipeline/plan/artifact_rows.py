"""The rows of run.json that say what became of each wanted target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ...models.artifact import read_artifact
from ...models.signature import Signature
from ...models.store import Stored, digest_of, size_of
from ..drift.metrics.equivalence import loss_interval
from ..drift.rules import FAIL, INCONCLUSIVE
from ..result.run_folder import ARTIFACTS
from ..result.schema import ArtifactRow, DriftRow, SignatureRow, Status, TensorRow, WeightsRow
from .router import TargetResult

_SIGNIFICANT = 0.05
_ROUNDING = 1e-6  # of a metric: what float32 leaves of it


def copies_by_slug(results: Sequence[TargetResult]) -> dict[str, Stored]:
    """Return the artifacts of the targets that were made."""
    return {result.target.slug: result.stored for result in results if result.stored}


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


def status_of(rows: Sequence[DriftRow]) -> Status:
    """Return the status of an artifact by all its comparisons, of every runtime and batch.
    Failed: any failed. Unverified: there is none, or any was inconclusive. Degraded: all passed, and in one the
    metric is measurably worse. Verified: the rest; that NaN or infinities are not passed on is a note."""
    verdicts = {str(row.verdict) for row in rows}
    if FAIL in verdicts:
        return Status.FAILED
    if not rows or INCONCLUSIVE in verdicts:
        return Status.UNVERIFIED
    return Status.DEGRADED if any(map(_is_worse, rows)) else Status.VERIFIED


def _is_worse(row: DriftRow) -> bool:
    """Return whether the interval of the loss lies above rounding, and McNemar's test agrees where it applies."""
    if row.metric is None:
        return False
    low, _, _ = loss_interval(asdict(row.metric))
    p_value = row.metric.p_value
    return low > _ROUNDING * abs(row.metric.reference) and (p_value is None or p_value < _SIGNIFICANT)
