"""The smallest part of a SavedModel or a TFLite file at which a step fails as at the full model. Worker only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...converters.minimal_repro import saved_model_pieces, tflite_pieces
from ...models.artifact import read_artifact
from ...models.formats import Format
from ...models.job import Job
from .script import PIECE
from .script_tensorflow import SUFFIX, ScriptablePiece, script_of
from .search_records import SearchOptions
from .trial import Piece, Trial, mentioned_operators, repro_facts, require_piece, search_smallest
from .trial_samples import full_model_failure, write_groups


class _SavablePiece(Piece, ScriptablePiece, Protocol):
    """A piece of a SavedModel or a TFLite file."""

    def save(self, path: Path) -> None:
        """Write it to a file for a script."""


def find_saved_model_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest piece of the SavedModel in inputs["source"] at which a step fails; write it and a script.

    Options and facts as in onnx_search.py. Raises Refused if the full model does not fail here, or cannot be frozen and
    run to compare with.
    """
    source = read_artifact(job.inputs["source"])
    return _find_piece(job, saved_model_pieces.SavedModelCutter(source.path, source.signature), Format.SAVED_MODEL)


def find_tflite_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest piece of the TFLite file in inputs["source"], as for a SavedModel."""
    return _find_piece(job, tflite_pieces.TfliteCutter(read_artifact(job.inputs["source"]).path), Format.TFLITE)


def _find_piece(
    job: Job, cutter: saved_model_pieces.SavedModelCutter | tflite_pieces.TfliteCutter, form: Format
) -> Mapping[str, Any]:
    options = SearchOptions.from_json(job.options)
    trial = Trial(options.chain, options.least_db, Path.cwd(), options.seconds)
    full_failure = full_model_failure(cutter, trial, job)
    cut: Callable[[Sequence[int]], _SavablePiece | None] = cutter.piece
    index, result = search_smallest(
        len(cutter.nodes),
        cut,
        cutter.graph.with_predecessors,
        trial,
        full_failure,
        mentioned_operators(full_failure.message, cutter.operators),
    )
    piece, failure = require_piece(result, full_failure, trial)
    facts = repro_facts(failure, piece.operators, *cutter.describe(index), None, trial)
    piece.save(job.out / f"{PIECE}{SUFFIX[form]}")
    write_groups(
        job.out / f"{PIECE}.npz", **{"in": piece.feeds, "expected": piece.expected, "got": failure.outputs or {}}
    )
    (job.out / f"{PIECE}.py").write_text(script_of(form, options, facts, piece, failure.kind))
    return facts.to_json()
