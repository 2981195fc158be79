"""The command `inspect`: what an artifact's folder, or a model's file of anybody, says of itself."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...converters.readers.reader_records import FileDescription
from ...models.artifact import Artifact, read_artifact
from ...models.errors import BadRequest, Exit, StepFailed
from ...models.formats import Format
from ...models.store import digest_of, size_of
from ...models.untrusted_files import check_plain
from ..extras.provenance.statement_file import StatementFile, read_statement
from ..options.request import read_request
from ..plan.context import LocalSettings
from ..plan.file_model import describe_file
from ..plan.model_argument import ModelKind, kind_of
from ..progress.progress import Progress
from ..show.card.card_folder import DigestCheck, check_digests
from ..show.card.card_records import Card, read_card
from .workspace import close_workers, new_context

_NO_MODEL = "name an artifact's folder, an .onnx, .tflite, .pt2, .pt or .keras file, or a SavedModel's folder"


@dataclass(frozen=True)
class InspectedArtifact:
    """An artifact's folder: its record, its card and its digests, where it has them."""

    folder: Path
    artifact: Artifact
    sha256: str  # of the payload as it is now
    bytes: int
    card: Card | None
    digests: DigestCheck | None
    statement: StatementFile | None = None  # what `verify` checks

    @property
    def is_sound(self) -> bool:
        """Whether nothing has changed since the artifact was made."""
        return not (self.payload_changed or (self.digests is not None and not self.digests.is_sound))

    @property
    def payload_changed(self) -> bool:
        """Whether the payload is another one than the card's."""
        return self.card is not None and self.card.sha256 != self.sha256

    @property
    def status(self) -> Exit:
        """Fail where something has changed."""
        return Exit.PASS if self.is_sound else Exit.FAIL

    @property
    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        provenance = self.artifact.provenance
        return {
            "kind": "artifact", "path": str(self.folder), "exit_code": int(self.status),
            "target": str(self.artifact.target), "sha256": self.sha256, "bytes": self.bytes,
            "signature": self.artifact.signature.to_json(),
            "provenance": provenance.to_json() if provenance else None,
            "card": self.card.to_json() if self.card else None,
            "digests": asdict(self.digests) if self.digests else None,
            "statement": self.statement.summary if self.statement else None,
        }  # fmt: skip


@dataclass(frozen=True)
class InspectedFile:
    """A model's file or folder that transload need not have written."""

    path: Path
    format: Format
    sha256: str
    bytes: int
    description: FileDescription
    status: Exit = Exit.PASS

    @property
    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        head = {"kind": "file", "path": str(self.path), "exit_code": int(self.status), "format": str(self.format)}
        description = replace(self.description, peak_rss_bytes=0).to_json()
        return {**head, "sha256": self.sha256, "bytes": self.bytes, **description}


def inspect(place: str, progress: Progress) -> InspectedArtifact | InspectedFile:
    """Read an artifact's folder, or a model's file in a worker. Leaves nothing on the disk.
    Raises BadRequest where it is no model, or cannot be read; ToolMissing where the library that reads it is absent."""
    kind = kind_of(place)
    if kind is ModelKind.ARTIFACT:
        return _inspect_artifact(Path(place))
    if isinstance(kind, ModelKind):
        raise BadRequest(f"{place} is code, and no model's file", fix=_NO_MODEL)
    return _inspect_file(place, kind, progress)


def _inspect_artifact(folder: Path) -> InspectedArtifact:
    check_plain(folder)
    artifact = read_artifact(folder)
    if not artifact.path.exists():
        raise BadRequest(f"{folder} lacks its {artifact.path.name}", fix="copy the folder again, or make it again")
    digest, size = digest_of(artifact.path), size_of(artifact.path)
    card, digests, statement = read_card(folder), check_digests(folder), read_statement(folder)
    return InspectedArtifact(folder, artifact, digest, size, card, digests, statement)


def _inspect_file(place: str, form: Format, progress: Progress) -> InspectedFile:
    request, path = read_request(None, {}), Path(place)
    with tempfile.TemporaryDirectory(prefix="transload-inspect-") as scratch:
        local = LocalSettings(store=Path(scratch, "store"), runs=Path(scratch, "runs"), jobs=1)
        context = new_context(request, Path(scratch), local, progress)
        try:
            with close_workers(context), progress.stage("read"):
                description = describe_file(context, place, form)
        except (BadRequest, StepFailed) as error:
            if scratch not in error.fix:
                raise
            fix = "copy it again; 'transload convert' keeps a log of what stops it"
            raise BadRequest(error.what, fix=fix) from error
    return InspectedFile(path, form, digest_of(path), size_of(path), description)


def embedded_facts(description: FileDescription, key: str) -> dict[str, Any]:
    """Return what transload has put into a file, as JSON values; nothing where it has put nothing that can be read."""
    try:
        facts = json.loads(description.metadata.get(key, ""))
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}
