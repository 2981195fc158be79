"""A statement beside an artifact, as anybody may have written it: read within limits, and checked for form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ....models.artifact import PROVENANCE
from ....models.errors import BadRequest
from ....models.untrusted_files import read_json
from ...result.schema import Verdict
from .envelope import Envelope, read_envelope
from .statement import STATEMENT, VERDICT

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OF_MODEL = ("model", "weights", "weights file")  # the roles of what is part of the model
_MOST_TEXT = 1000  # letters of a sentence that is shown


@dataclass(frozen=True)
class StatedVerdict:
    """What a statement says of its artifact."""

    verdict: Verdict
    status: str
    agreement: str


@dataclass(frozen=True)
class StatementFile:
    """A statement, and the envelope that it came in; None where it is not signed."""

    document: Mapping[str, Any]
    digests: Mapping[str, str]  # sha256 by the name of the file
    verdict: StatedVerdict | None  # None: it is another tool's
    envelope: Envelope | None

    @property
    def dependencies(self) -> tuple[str, ...]:
        """The names of what went in, each with the beginning of its digest."""
        return tuple(map(_dependency_text, self._rows))

    @property
    def models(self) -> tuple[str, ...]:
        """What the model may be pinned by: its name, and the digests of its code, file and weights."""
        name = _mapping(self._definition.get("externalParameters")).get("model")
        return _texts(name, *(digest for row in self._rows for digest in _digests_of_model(row)))

    @property
    def releases(self) -> tuple[str, ...]:
        """What the version may be pinned by: that which was named, the id of the run, and the git commit."""
        options = _mapping(_mapping(self._definition.get("externalParameters")).get("options"))
        details = _mapping(_mapping(self.document.get("predicate")).get("runDetails"))
        return _texts(
            _mapping(options.get("model")).get("version"), _mapping(details.get("metadata")).get("invocationId"),
            *(_mapping(row.get("digest")).get("gitCommit") for row in self._rows),
        )  # fmt: skip

    @property
    def _rows(self) -> list[Mapping[str, Any]]:
        """What went in, row by row."""
        rows = self._definition.get("resolvedDependencies")
        return [_mapping(row) for row in rows] if isinstance(rows, list) else []

    @property
    def _definition(self) -> Mapping[str, Any]:
        return _mapping(_mapping(self.document.get("predicate")).get("buildDefinition"))

    @property
    def summary(self) -> dict[str, Any]:
        """The keys that it says it is signed with, and its verdict, as JSON values. Nothing of it is checked."""
        keys = list(self.envelope.key_ids) if self.envelope else []
        return {"keys": keys, "verdict": str(self.verdict.verdict) if self.verdict else None}

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of what made it, as in "torch 2.13.0"."""
        details = _mapping(_mapping(self.document.get("predicate")).get("runDetails"))
        versions = _mapping(_mapping(details.get("builder")).get("version"))
        return tuple(f"{name} {version}"[:_MOST_TEXT] for name, version in versions.items())


def read_statement(folder: Path) -> StatementFile | None:
    """Read the statement of an artifact's folder, None where there is none. Raises BadRequest where it is broken."""
    file = folder / PROVENANCE
    try:
        document = read_json(file)
        envelope = read_envelope(document) if "payloadType" in document else None
        if envelope is not None:
            document = json.loads(envelope.payload)
        return StatementFile(document, _digests(document), _stated_verdict(document), envelope)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error)[:200]
        raise BadRequest(
            f"{file} is no statement that can be read: {reason}",
            fix="copy the folder again, or make the artifact again",
        ) from error


def _digests(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the digests of the subjects by name. Raises ValueError where they are of another form."""
    if document["_type"] != STATEMENT:
        raise ValueError(f"its type is {str(document['_type'])[:100]!r}, and not {STATEMENT}")
    digests: dict[str, str] = {}
    for subject in document["subject"]:
        name, digest = subject["name"], subject["digest"]["sha256"]
        if not isinstance(name, str) or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ValueError(f"the subject {str(name)[:100]!r} is no name of a file in the folder")
        if name in digests or not isinstance(digest, str) or not _SHA256.fullmatch(digest):
            raise ValueError(f"the subject {name[:100]!r} is named twice, or its sha256 is none")
        digests[name] = digest
    if not digests:
        raise ValueError("it has no subject")
    return digests


def _stated_verdict(document: Mapping[str, Any]) -> StatedVerdict | None:
    part = _mapping(document["predicate"]).get(VERDICT)
    if part is None:
        return None
    texts = (part["status"], part["agreement"])
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("its verdict has no status or no agreement")
    return StatedVerdict(Verdict(part["verdict"]), *(text[:_MOST_TEXT] for text in texts))


def _digests_of_model(row: Mapping[str, Any]) -> list[object]:
    """Return the digests of what went in, where it is part of the model."""
    is_part = _mapping(row.get("annotations")).get("role") in _OF_MODEL
    return list(_mapping(row.get("digest")).values()) if is_part else []


def _texts(*values: object) -> tuple[str, ...]:
    """Return what is a text, each once."""
    return tuple(dict.fromkeys(value for value in values if value and isinstance(value, str)))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _dependency_text(row: Mapping[str, Any]) -> str:
    parts = [f"{name} {str(digest)[:16]}" for name, digest in _mapping(row.get("digest")).items()]
    return f"{row.get('name', '')} ({', '.join(parts)})"[:_MOST_TEXT]
