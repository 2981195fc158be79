"""Import a .tflite file, quantised or not, and check the one of an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....models.artifact import Artifact
from ....models.errors import BadRequest
from ....models.formats import Format
from ....models.job import Job
from ....models.signature import Signature
from ..file_import import checked_file, store_file
from ..requested_inputs import apply_request
from ..shared_batch import check_one_batch, guessed_batches
from .tflite_file import TfliteFile


def import_tflite(job: Job) -> Mapping[str, Any]:
    """Import a .tflite file, quantised or not: FileOptions -> FileFacts.

    Raises BadRequest if it is incomplete, or needs operators that LiteRT lacks.
    """
    options, path = checked_file(job, Format.TFLITE)
    file = TfliteFile(path, trust=options.trust)
    if file.flex:
        raise BadRequest(
            f"{path} needs TensorFlow's Flex delegate for {', '.join(file.flex)}, and LiteRT, which is asked what a "
            "file gives, has none",
            fix="convert it again with TFLITE_BUILTINS alone, or name the SavedModel that it was made from",
        )
    declared = file.inputs()
    requested, unnamed = options.inputs, guessed_batches(Signature(declared, declared))
    inputs = apply_request(Signature(declared, declared), requested, unnamed).inputs  # outputs are found by calling it
    if not requested:
        check_one_batch(path, inputs, unnamed, lambda: TfliteFile(path, trust=options.trust).shapes_of)
    return store_file(job, Format.TFLITE, file.signature(inputs), path)


def check_tflite(artifact: Artifact, *, trust: bool) -> None:
    """Check the file of an artifact, and that the record, which decides the interpreter that opens it, lists the Flex
    operators that it holds. Raises BadRequest."""
    flex = TfliteFile(artifact.path, trust=trust).flex
    if tuple(flex) != artifact.flex:
        recorded, held = (", ".join(names) or "none" for names in (artifact.flex, flex))
        raise BadRequest(
            f"{artifact.path} needs TensorFlow's Flex delegate for {held}, its record says {recorded}",
            fix="make the artifact again",
        )
