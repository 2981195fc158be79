"""`tuning.json` beside an artifact: the settings that won a search, and where they hold.

An entry holds for one runtime, device, processor, number of cores, versions of libraries and payload. Where any of
these differs, the defaults hold. The file lies in the user's folder and never in the store, whose objects do not
change: a folder of the store is only seen through links, and then the file lies beside the link.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...models.artifact import RECORD, TUNING, read_artifact
from ...models.atomic_files import write_whole
from ...models.errors import BadRequest, TransloadError
from ...models.job import JsonRecord
from ...models.store import digest_of
from ...models.untrusted_files import read_json
from .tuning_space import RuntimeSettings, Value

SCHEMA = 1
_MOST_BYTES = 1 << 20
_MEND = "tune again: transload bench ARTIFACT --tune"


@dataclass(frozen=True, kw_only=True)
class TuningPlace(JsonRecord):
    """What settings were tuned for, and hold for alone."""

    runtime: str
    device: str
    cpu: str
    cores: int
    libraries: Mapping[str, str]  # the modules that the runtime needs, with their versions
    sha256: str  # of the payload


@dataclass(frozen=True, kw_only=True)
class BatchInBound(JsonRecord):
    """The batch size of the largest throughput whose p99 keeps a bound."""

    bound_s: float
    batch: int
    p99_s: float
    throughput_per_s: float
    threads: int = 1  # that the runtime had


@dataclass(frozen=True, kw_only=True)
class TuningEntry(JsonRecord):
    """Settings that won, at a batch size, and by how much. No settings: the defaults won."""

    place: TuningPlace
    settings: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 1
    ratio_to_default: float | None = None
    ratio_ci95: tuple[float, float] | None = None
    in_bound: BatchInBound | None = None

    def __post_init__(self) -> None:
        RuntimeSettings(self.place.runtime, self.settings)


def tuning_path(model: Path) -> Path:
    """Return where the tuning of a model lies: in an artifact's own folder; of a file, a SavedModel or a link to a
    folder beside it, as `model.onnx.tuning.json`."""
    own_folder = not model.is_symlink() and (model / RECORD).is_file()
    return model / TUNING if own_folder else model.with_name(f"{model.name}.{TUNING}")


def payload_digest(model: Path) -> str:
    """Return the sha256 of an artifact's payload, or of a model's file or folder."""
    return digest_of(read_artifact(model).path if (model / RECORD).is_file() else model)


def read_tuning(model: Path) -> tuple[TuningEntry, ...]:
    """Return all entries beside a model, fitting or not; none where there is no file.
    Raises BadRequest where the file is broken."""
    path = tuning_path(model)
    try:
        document = read_json(path, _MOST_BYTES)
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r:.20}, and this version reads {SCHEMA}")
        return tuple(TuningEntry.from_json(entry) for entry in document["entries"])
    except FileNotFoundError:
        return ()
    except NotADirectoryError:
        return ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, TransloadError) as error:
        reason = error.what if isinstance(error, TransloadError) else error
        raise BadRequest(f"{path} cannot be read: {reason}", fix=f"remove it, or {_MEND}") from error


def tuning_document(model: Path) -> str | None:
    """Return the text of a tuning file with the entries of the payload that is beside it, for a copy of the artifact
    elsewhere; None where there is none. Raises BadRequest where the file is broken."""
    entries = read_tuning(model)
    digest = payload_digest(model) if entries else ""
    fitting = [entry for entry in entries if entry.place.sha256 == digest and entry.settings]
    return _text(fitting) if fitting else None


def bound_batch(model: Path) -> int | None:
    """Return the batch size that the last search of this model with a latency bound found; None where there was no such
    search, or no batch size keeps the bound. Raises BadRequest where the file is broken."""
    entries = read_tuning(model)
    digest = payload_digest(model) if entries else ""
    batches = [entry.in_bound.batch for entry in entries if entry.place.sha256 == digest and entry.in_bound]
    return batches[-1] if batches else None


def find_entry(model: Path, place: TuningPlace) -> TuningEntry | None:
    """Return the entry beside a model that was tuned for exactly this place; None where there is none."""
    return next((entry for entry in read_tuning(model) if entry.place == place), None)


def keep_entry(model: Path, entry: TuningEntry) -> Path:
    """Write an entry beside a model, in place of a former one for the same runtime, device and machine.
    Raises BadRequest where the folder cannot be written to."""
    path, own = tuning_path(model), _machine(entry.place)
    kept = [known for known in _readable(model) if _machine(known.place) != own]
    try:
        write_whole(path, _text([*kept, entry]))
    except OSError as error:
        fix = "copy the artifact to a folder of yours, and tune it there"
        raise BadRequest(f"{path} cannot be written: {os.strerror(error.errno or 0)}", fix=fix) from error
    return path


def _text(entries: Sequence[TuningEntry]) -> str:
    document = {"schema": SCHEMA, "entries": [entry.to_json() for entry in entries]}
    return json.dumps(document, indent=1) + "\n"


def _readable(model: Path) -> tuple[TuningEntry, ...]:
    try:
        return read_tuning(model)
    except BadRequest:  # it is written anew
        return ()


def _machine(place: TuningPlace) -> TuningPlace:
    return replace(place, libraries={}, sha256="")


def values_of(entry: TuningEntry | None) -> dict[str, Value]:
    """Return the settings of an entry; none of none."""
    return dict(entry.settings) if entry else {}
