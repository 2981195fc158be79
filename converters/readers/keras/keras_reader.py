"""Import a .keras file, describe it, and check the one of an artifact."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....models.artifact import Artifact
from ....models.formats import Format
from ....models.job import Job
from ....models.keras_model import signature_of_keras
from ....models.user_python.inside.tensorflow_model import training_notes
from ..describe_file import counted, plain_text, side_texts, signature_or_note, summed
from ..file_import import checked_file, store_file
from ..reader_records import FileDescription, FileFacts
from ..requested_inputs import apply_request
from ..shared_batch import check_one_batch, guessed_batches, keras_runner
from .keras_file import check_keras, load_checked_keras


def import_keras(job: Job) -> Mapping[str, Any]:
    """Import a .keras file: FileOptions -> FileFacts.

    Raises BadRequest if it is incomplete, or holds code or classes that are not Keras's own.
    """
    options, path = checked_file(job, Format.KERAS)
    check_keras(path)
    model, requested = load_checked_keras(path), options.inputs
    declared = signature_of_keras(model, path)
    signature = apply_request(declared, requested, guessed_batches(declared))
    if not requested:
        check_one_batch(path, signature.inputs, guessed_batches(declared), lambda: keras_runner(model, declared))
    facts = FileFacts.from_json(store_file(job, Format.KERAS, signature, path))
    return replace(facts, notes=tuple(training_notes(model))).to_json()


def check_payload(artifact: Artifact, *, trust: bool) -> None:  # noqa: ARG001  (code is refused of all)
    """Check the file of an artifact. Raises BadRequest."""
    check_keras(artifact.path)


def describe_keras(path: Path) -> FileDescription:
    """Describe a file. Raises BadRequest."""
    check_keras(path)
    model = load_checked_keras(path)
    signature, note = signature_or_note(lambda: signature_of_keras(model, path))
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("metadata.json"))
    saved = document if isinstance(document, dict) else {}
    tensors = [(str(weight.dtype), math.prod(weight.shape)) for weight in model.weights]
    return FileDescription(
        producer=plain_text(f"Keras {saved.get('keras_version', '')}"),
        inputs=side_texts(signature, "inputs"),
        outputs=side_texts(signature, "outputs"),
        operators=counted(type(layer).__name__ for layer in model.layers),
        weights=summed(tensors),
        metadata={"saved on": plain_text(str(saved["date_saved"]))} if "date_saved" in saved else {},
        notes=note,
    )
