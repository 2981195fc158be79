"""The smallest part of a SavedModel or a TFLite file at which a step fails as it does at the whole. Worker only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...converters.minimal_repro import saved_model_pieces, tflite_pieces
from ...models.artifact import read_artifact
from ...models.formats import Format
from ...models.job import Job
from .script import PIECE
from .script_tensorflow import SUFFIX, Shown, script_of
from .trial import Piece, Trial, facts_of, found_or_refused, smallest, suspects
from .trial_samples import whole_failing, write_groups


class _Piece(Piece, Shown, Protocol):
    """What both kinds have."""

    def save(self, path: Path) -> None:
        """As a file for a script."""


def of_saved_model(job: Job) -> Mapping[str, Any]:
    """Find the piece of the SavedModel in inputs["source"] that the step of the options fails at, and write it with a
    script that shows it. Options and facts as in onnx.py.

    Raises Refused where the whole does not fail here, or cannot be frozen and run to compare with.
    """
    source = read_artifact(job.inputs["source"])
    return _shrunk(job, saved_model_pieces.Cutter(source.path, source.signature), Format.SAVED_MODEL)


def of_tflite(job: Job) -> Mapping[str, Any]:
    """The same of the TFLite file in inputs["source"]."""
    return _shrunk(job, tflite_pieces.Cutter(read_artifact(job.inputs["source"]).path), Format.TFLITE)


def _shrunk(job: Job, cutter: saved_model_pieces.Cutter | tflite_pieces.Cutter, form: Format) -> Mapping[str, Any]:
    options = job.options
    trial = Trial(options["chain"], options["least_db"], Path.cwd(), options["seconds"])
    whole = whole_failing(cutter, trial, job)
    cut: Callable[[Sequence[int]], _Piece | None] = cutter.piece
    at, found = smallest(len(cutter.nodes), cut, cutter.behind, trial, whole, suspects(whole.what, cutter.operators))
    piece, seen = found_or_refused(found, whole, trial)
    facts = facts_of(seen, piece.operators, *cutter.described(at), None, trial)
    piece.save(job.out / f"{PIECE}{SUFFIX[form]}")
    write_groups(job.out / f"{PIECE}.npz", **{"in": piece.feeds, "expected": piece.expected, "got": seen.got or {}})
    (job.out / f"{PIECE}.py").write_text(script_of(form, options, facts, piece, seen.kind))
    return facts
