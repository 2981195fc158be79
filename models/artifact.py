"""A model in one format, in a folder of its own: the payload and `artifact.json` beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import BadRequest
from .formats import Target, parse_target
from .provenance import Provenance
from .signature import Signature
from .untrusted_files import read_json

RECORD = "artifact.json"
TUNING = "tuning.json"  # beside it, of this machine and no part of the artifact (serving/runtimes/tuning_file.py)
MADE_FROM = "made_from.json"  # beside it, too: where its source lies (pipeline/plan/recorded_source.py)
CARD, CARD_TEXT, REQUIREMENTS, DIGESTS = "card.json", "README.md", "requirements.txt", "SHA256SUMS"
PROVENANCE, GOLDEN = "provenance.json", "golden.json"
# What says something of an artifact beside its payload and record. It is no part of the artifact: other words about
# the same model make no other model.
LOCAL = (TUNING, MADE_FROM)
BESIDE = (*LOCAL, CARD, CARD_TEXT, REQUIREMENTS, PROVENANCE, DIGESTS, GOLDEN)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A model in one format and precision.
    `folder` holds the payload (a file, or a folder for a SavedModel), which does not change once it is recorded."""

    target: Target
    signature: Signature
    folder: Path
    flex: tuple[str, ...] = ()  # operators that a TFLite file needs TensorFlow's Flex delegate for, as "FlexErf"
    provenance: Provenance | None = None  # None where it is not known

    @property
    def path(self) -> Path:
        """The file or folder that a runtime or a server opens."""
        return self.folder / self.target.format.spec.payload


def write_artifact(
    folder: Path,
    target: Target,
    signature: Signature,
    flex: Sequence[str] = (),
    provenance: Provenance | None = None,
) -> Artifact:
    """Record the payload that a converter has just put into `folder`.
    Raises FileNotFoundError where the payload is missing: a converter's return code proves nothing."""
    artifact = Artifact(target, signature, folder, tuple(flex), provenance)
    if not artifact.path.exists():
        raise FileNotFoundError(f"{artifact.path.name} was promised and is not in {folder}")
    record = {"target": str(target), "signature": signature.to_json(), **({"flex": list(flex)} if flex else {})}
    if provenance is not None:
        record["provenance"] = provenance.to_json()
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n")
    return artifact


def read_artifact(folder: Path) -> Artifact:
    """Read the artifact that `write_artifact` has recorded in a folder. Raises BadRequest where there is none."""
    try:
        record = read_json(folder / RECORD)
        if not (isinstance(record["target"], str) and all(isinstance(name, str) for name in record.get("flex", ()))):
            raise ValueError("its target or an operator is no text")
        target, signature = parse_target(record["target"]), Signature.from_json(record["signature"])
        flex = tuple(record.get("flex", ()))
        known = record.get("provenance")
        provenance = None if known is None else Provenance.part_of(known)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadRequest(
            f"{folder} holds no artifact: {error}", fix="name a folder under runs/<id>/artifacts/"
        ) from error
    return Artifact(target, signature, folder, flex, provenance)
