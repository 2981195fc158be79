"""What the readers of all formats share: a user's file is checked, and stored as an artifact with its record.

Only workers parse such files, and nothing has parsed them before. A broken file is reported in one sentence. Code that
reading would run (a pickle, a compiled library) is refused and never run.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...models.artifact import BESIDE, write_artifact
from ...models.errors import BadRequest
from ...models.formats import Format, Target
from ...models.job import Job
from ...models.probes.samples import check_file
from ...models.provenance import Provenance
from ...models.signature import Signature
from ...models.store import digest_of
from ..calibrated_ranges import calibrated_ranges
from .file_content import check_content
from .reader_records import FileFacts, FileOptions


def checked_file(job: Job, expected: Format) -> tuple[FileOptions, Path]:
    """Return the options and the file of a job. Raises BadRequest if it has changed, or is of another format."""
    options = FileOptions.from_json(job.options)
    path = Path(options.path)
    check_file(path, options.sha256)
    check_content(path, expected)
    return options, path


def checked_folder(options: FileOptions) -> Path:
    """Return the folder of a job. Raises BadRequest if it has changed since its digest was taken."""
    folder = Path(options.path)
    if digest_of(folder, without=BESIDE) != options.sha256:
        raise BadRequest(f"{folder} has changed since this command began", fix="run again when it is finished")
    return folder


def store_file(job: Job, form: Format, signature: Signature, unchanged: Path | None = None) -> Mapping[str, Any]:
    """Write the record of the artifact, and copy its payload if that is the user's file, unchanged."""
    if unchanged is not None:
        shutil.copyfile(unchanged, job.out / form.spec.payload)
    provenance = provenance_of_file(FileOptions.from_json(job.options))
    artifact = write_artifact(job.out, Target(form), signature, provenance=provenance)
    return FileFacts(signature=signature, calibrated=calibrated_ranges(artifact.path, form)).to_json()


def provenance_of_file(options: FileOptions) -> Provenance | None:
    """Return what is known of a user's file; None where its name cannot be printed."""
    name = Path(options.path).name
    return Provenance(model=name, sha256=options.sha256, kind="file") if name.isprintable() else None
