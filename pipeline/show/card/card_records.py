"""What card.json in an artifact's folder says. README.md there says the same in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ....models.artifact import CARD
from ....models.errors import BadRequest, TransloadError
from ....models.job import JsonRecord
from ....models.provenance import Provenance
from ....models.signature import Signature
from ....models.untrusted_files import read_json

CARD_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class CommitState(JsonRecord):
    """The git commit that a model's file belonged to when it was converted."""

    commit: str
    # Tracked files that were not as git has recorded them; null where that could not be told.
    changed: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ModelFacts(JsonRecord):
    """What is known of the model beyond its signature. What nobody has said is empty."""

    summary: str = ""
    commit: CommitState | None = None
    labels: Mapping[str, str] = field(default_factory=dict)  # the name of each class by its number
    labels_from: str = ""  # who says so
    preprocessing: tuple[str, ...] = ()  # sentences, each with who says so


@dataclass(frozen=True, kw_only=True)
class CardCheck(JsonRecord):
    """How an artifact was compared with its model in one runtime: the worst of all comparisons on samples."""

    runtime: str
    batches: tuple[int, ...]
    samples: int
    sqnr_db: float | None = None  # null: the answers are the same to the last bit, or there was none
    max_abs: float | None = None
    tolerance_db: float | None = None
    metric: str = ""  # the task's metric of the artifact, and of the model
    exercised: tuple[str, ...] = ()  # the sizes and numbers that were asked


@dataclass(frozen=True, kw_only=True)
class CardRuntime(JsonRecord):
    """What the artifact was verified in, as a package index knows it."""

    name: str
    python: str
    requirements: tuple[str, ...]  # lines of a requirements.txt


@dataclass(frozen=True, kw_only=True)
class Card(JsonRecord):
    """The facts of an artifact that are known once it has been verified."""

    schema: int
    name: str  # of the model
    target: str
    file: str  # the payload's name
    sha256: str  # of the file, or of the sorted list of a folder's files
    bytes: int
    status: str
    agreement: str  # one sentence
    route: tuple[str, ...]
    signature: Signature
    runtime: CardRuntime
    transload: str
    provenance: Provenance | None = None
    model: ModelFacts = field(default_factory=ModelFacts)
    checks: tuple[CardCheck, ...] = ()
    weights: tuple[str, ...] = ()  # of a reduced precision: counts by dtype
    flex: tuple[str, ...] = ()


def read_card(folder: Path) -> Card | None:
    """Read the card in a folder, None where there is none. Raises BadRequest where it is broken."""
    file = folder / CARD
    try:
        document = read_json(file)
        schema = document.get("schema")
        if schema != CARD_SCHEMA:
            raise ValueError(f"its schema is {schema!r:.20}, and this version reads {CARD_SCHEMA}")
        return Card.part_of(document)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, TransloadError) as error:
        reason = error.what if isinstance(error, TransloadError) else error
        raise BadRequest(f"{file} cannot be read: {reason}", fix="copy the folder again, or make it again") from error
