"""The last move of every conversion step: what made the model is put into its file, and the artifact is recorded.

It comes before the artifact is verified and digested: the bytes that were verified are those that are published.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .. import __version__
from ..models.artifact import Artifact, read_artifact, write_artifact
from ..models.formats import Target
from ..models.job import Job
from ..models.provenance import ConversionStep, Provenance
from ..models.signature import Signature
from ..models.sources import is_source, public_name, read_source
from .embedded_metadata import embed

_NO_VERSIONS = ("interpreter", "machine")  # of the toolchain: a path, and which processor it ran on


def write_converted(job: Job, target: Target, signature: Signature, flex: Sequence[str] = ()) -> Artifact:
    """Record the payload in job.out, with what is known of its source and of the step.

    Raises FileNotFoundError where the payload is missing.
    """
    provenance = _extended(source_provenance(job.inputs["source"]), target, job.toolchain)
    payload = job.out / target.format.spec.payload
    if provenance is not None and payload.exists():
        embed(payload, target.format, json.dumps(document_of(target, signature, provenance), sort_keys=True))
    return write_artifact(job.out, target, signature, flex, provenance)


def document_of(target: Target, signature: Signature, provenance: Provenance) -> dict[str, object]:
    """Return what stands in a model's own file, as JSON values."""
    return {"target": str(target), "signature": signature.to_json(), **provenance.to_json()}


def source_provenance(folder: Path) -> Provenance | None:
    """Return what is known of a step's input: a model that is code, or an artifact. None where nothing is."""
    if not is_source(folder):
        return read_artifact(folder).provenance
    source = read_source(folder)
    return Provenance(model=public_name(source.ref), sha256=source.code)


def _extended(known: Provenance | None, target: Target, toolchain: Mapping[str, str]) -> Provenance | None:
    if known is None:
        return None
    versions = {name: version for name, version in sorted(toolchain.items()) if name not in _NO_VERSIONS}
    step = ConversionStep(target=str(target), made_with=versions)
    return replace(known, transload=__version__, steps=(*known.steps, step))
