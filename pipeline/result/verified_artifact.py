"""What a finished `run` or `convert` says of an artifact in its folder: status, tolerance, and the samples it saw."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...models.artifact import RECORD
from ...models.dataset import TEST
from ...models.errors import BadRequest
from ...models.formats import Format, Precision
from ...models.store import digest_of
from ...models.untrusted_files import read_json
from .schema import Status

_DOCUMENTS = ("run.json", "convert.json")
_RUN_AGAIN = "run again, or name an artifact's folder"
_BROKEN = (ValueError, LookupError, TypeError, AttributeError)  # what reading a document of another form leads to
_MOST_PATH_BYTES = 1024  # of a folder within a run: file systems take four times as many, with all that stands before
_USUAL = ("whole test set", "samples")  # the probes that are no stress


@dataclass(frozen=True)
class VerifiedArtifact:
    """An artifact's folder, and what its run says of it; nothing where there is no run."""

    folder: Path
    status: Status | None = None
    least_db: float | None = None  # the tolerance that the run held it to, in dB
    samples: Path | None = None  # the test set of the run, where the store still has it


def find_artifact(place: Path, formats: Sequence[Format]) -> VerifiedArtifact:
    """Return the artifact in a folder, or the one in a run's folder that suits best: by the order of `formats`, then
    full precision first.
    Raises BadRequest where there is none, or it failed, or its payload has changed since."""
    if (place / RECORD).is_file():
        return _describe(place)
    document = _document(place)
    if document is None:
        raise BadRequest(
            f"{place} is neither an artifact's folder nor that of a run",
            fix="name runs/ID, a folder that transload convert wrote, or an artifact's folder in it",
        )
    rows = [row for row in document["artifacts"] if row["path"] and row["status"] != Status.FAILED]
    fitting = [row for row in rows if row["format"] in formats]
    if not fitting:
        has = ", ".join(row["name"] for row in rows) or "nothing"
        raise BadRequest(
            f"{place} has {has}, and none of it is {' or '.join(formats)}",
            fix=f"run or convert again with --to {formats[0]}",
        )
    full = str(Precision.FP32)
    best = min(fitting, key=lambda row: (formats.index(Format(row["format"])), row["precision"] != full))
    return _describe((place / best["path"]).parent)


def artifacts_in(text: str) -> list[str]:
    """Return the folders of the artifacts that a run or a `convert` left in the folder `text`; else `text` itself.
    Raises BadRequest where the folder has none, or those of several models."""
    place = Path(text)
    if (place / RECORD).is_file() or not any((place / name).is_file() for name in _DOCUMENTS):
        return [text]
    document = _document(place)
    rows = document["artifacts"] if document else ()
    if not (folders := [str((place / row["path"]).parent) for row in rows if row["path"]]):
        inside = sorted(str(file.parent) for file in place.glob(f"*/{_DOCUMENTS[1]}"))
        fix = f"name one of {', '.join(inside)}" if inside else "convert or run again, and read what that says"
        raise BadRequest(f"{text} holds no artifact of its own", fix=fix)
    return folders


def _describe(folder: Path) -> VerifiedArtifact:
    """Return the artifact with what its run says; the run's folder is one or two above it."""
    for run in (folder.absolute().parent, folder.absolute().parent.parent):
        row = _row_of(folder.absolute(), run)
        if row is None:
            continue
        status = Status(row["status"])
        if status is Status.FAILED:
            raise BadRequest(f"{folder} failed in its run", fix=f"read {run}, and bundle one that is verified")
        if _digest_or_none(run / row["path"]) != row["sha256"]:
            raise BadRequest(f"{folder} has changed since it was verified", fix="make the artifact again")
        return VerifiedArtifact(folder, status, _least_db(_document(run) or {}, row["name"]), samples_of(run))
    return VerifiedArtifact(folder)


def _digest_or_none(path: Path) -> str | None:
    """Return the digest of a payload; None where it is gone, or has a name that no file system takes."""
    try:
        return digest_of(path)
    except OSError:
        return None


def _row_of(folder: Path, run: Path) -> Mapping[str, Any] | None:
    document = _document(run)
    rows = document["artifacts"] if document is not None else ()
    return next((row for row in rows if row["path"] and (run / row["path"]).parent == folder), None)


def _document(run: Path) -> Mapping[str, Any] | None:
    """Return run.json or convert.json of a folder, None where it has neither.
    Raises BadRequest where the file is broken."""
    file = next((run / name for name in _DOCUMENTS if (run / name).is_file()), None)
    if file is None:
        return None
    try:
        document: Mapping[str, Any] = read_json(file)
        if "models" in document:  # of several models, each with a folder of its own
            return None
        _check_form(document)
    except (OSError, *_BROKEN) as error:
        raise BadRequest(f"{file} cannot be read: {error}", fix=_RUN_AGAIN) from error
    return document if document["artifacts"] else None


def _check_form(document: Mapping[str, Any]) -> None:
    """Raise one of _BROKEN where a document, which may be anybody's, lacks what is read of it, or has it in another
    form."""
    for row in document["artifacts"]:
        Status(row["status"])
        texts = [row[name] for name in ("name", "format", "precision")]
        texts += [row[name] for name in ("path", "sha256") if row[name] is not None]
        if not all(isinstance(text, str) and text.isprintable() for text in texts):
            raise ValueError("an artifact is described by texts")
        folder = Path(row["path"] or "").parent
        if len(bytes(folder)) > _MOST_PATH_BYTES or any(len(os.fsencode(name)) > 255 for name in folder.parts):
            raise ValueError("a folder has a longer name than file systems take")
    probes = [(row["values"], row) for row in document.get("probes", ())]
    for _, row in (*(("", row) for row in document.get("drift", ())), *probes):
        limit = row["tolerance"]["sqnr_db"]
        if not isinstance(row["artifact"], str) or type(limit) not in (int, float, type(None)):
            raise ValueError("a comparison has an artifact and a tolerance in dB")


def _least_db(document: Mapping[str, Any], name: str) -> float | None:
    """Return the largest signal to noise that a comparison with the test samples asked of the artifact."""
    probes = [row for row in document.get("probes", ()) if row["values"] in _USUAL]
    rows = [row for row in (*document.get("drift", ()), *probes) if row["artifact"] == name]
    limits = [row["tolerance"]["sqnr_db"] for row in rows]
    return max((limit for limit in limits if limit is not None), default=None)


def samples_of(run: Path) -> Path | None:
    """Return the test set that the steps of a run read, as their repeat scripts name it; None where it is gone."""
    return next((folder / TEST for folder in _step_inputs(run, "data") if (folder / TEST).is_file()), None)


def reference_of(run: Path) -> Path | None:
    """Return the folder of the reference's recorded answers that a run compared with; None where it is gone."""
    return next((folder for folder in _step_inputs(run, "reference") if folder.is_dir()), None)


def _step_inputs(run: Path, name: str) -> Iterator[Path]:
    """Yield what the steps of a run read as their input `name`, by their repeat scripts."""
    try:
        for file in sorted((run / "repeat").glob("*.json")):
            folder = read_json(file).get("job", {}).get("inputs", {}).get(name)
            if folder and Path(folder).exists():  # raises where no file system takes the name
                yield Path(folder)
    except (OSError, *_BROKEN) as error:
        raise BadRequest(f"the scripts in {run / 'repeat'} cannot be read: {error}", fix=_RUN_AGAIN) from error
