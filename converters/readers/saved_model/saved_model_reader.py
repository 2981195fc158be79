"""Import the folder of a SavedModel, and check the one of an artifact."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....models.artifact import Artifact
from ....models.formats import Format
from ....models.job import Job
from ....models.loading.weight_files import few
from ....models.tensorflow_names import DEFAULT
from ..file_content import refuse_links
from ..file_import import checked_folder, store_file
from ..output_axes import name_output_axes
from ..reader_records import FileFacts, FileOptions
from ..requested_inputs import apply_request
from ..shared_batch import check_one_batch, guessed_batches, saved_model_runner
from .saved_model_folder import read_saved_model, signature_of_saved_model
from .saved_model_parts import (
    fitting_inputs,
    functions_not_asked,
    refuse_composite_inputs,
    save_again,
    unrestored_variables,
)

if TYPE_CHECKING:
    from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef


def import_saved_model(job: Job) -> Mapping[str, Any]:
    """Import the folder of a SavedModel: FileOptions -> FileFacts.

    Raises BadRequest if it is incomplete, or holds operators that may do more than compute.
    """
    options = FileOptions.from_json(job.options)
    refuse_links(Path(options.path), "SavedModel")
    folder, requested = checked_folder(options), options.inputs
    graph = read_saved_model(folder, trust=options.trust, strings=options.strings)
    if DEFAULT in graph.signature_def:
        refuse_composite_inputs(graph, folder)
    declared = signature_of_saved_model(graph, folder, requested)
    requested = requested or fitting_inputs(folder, declared)
    signature = apply_request(declared, requested, guessed_batches(declared))
    payload = job.out / Format.SAVED_MODEL.spec.payload
    unrestored = unrestored_variables(graph)
    if unrestored:
        save_again(folder, payload)
    else:
        payload.mkdir()
        shutil.copyfile(folder / "saved_model.pb", payload / "saved_model.pb")
        for part in ("variables", "assets"):  # serving reads nothing else
            if (folder / part).is_dir():
                shutil.copytree(folder / part, payload / part)
    open_model = cache(partial(saved_model_runner, payload, signature.outputs))
    if not requested:
        check_one_batch(folder, signature.inputs, guessed_batches(declared), open_model)
    signature = name_output_axes(signature, open_model)
    facts = FileFacts.from_json(store_file(job, Format.SAVED_MODEL, signature))
    return replace(facts, notes=tuple(_notes_of_saved_model(graph, unrestored))).to_json()


def _notes_of_saved_model(graph: MetaGraphDef, unrestored: Sequence[str]) -> Iterator[str]:
    if unrestored:
        yield (
            f"TensorFlow Serving would fail on this folder: restoring it leaves {few(unrestored)} without values; "
            "it is read as TensorFlow 2 loads it. To serve it, save it with model.export(FOLDER)"
        )
    if names := functions_not_asked(graph):
        verb = "is" if len(names) == 1 else "are"
        yield f"{few(names)} {verb} not asked: copies hold serving_default, and only that is compared"


def check_saved_model(artifact: Artifact, *, trust: bool) -> None:
    """Check the folder of an artifact. Raises BadRequest."""
    read_saved_model(artifact.path, trust=trust)


def function_names(path: Path) -> list[str]:
    """Return the names of the functions that copies do not hold."""
    return functions_not_asked(read_saved_model(path, trust=True))
