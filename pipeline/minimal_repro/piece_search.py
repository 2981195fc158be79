"""Searches for the smallest part of a model at which a step fails as it does at the full model. Worker only.

Each writes the piece and a script to the job's folder, and returns PieceFacts; the options are SearchOptions. Each
raises Refused if the full model does not fail here, or cannot be run to compare with.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...converters.minimal_repro.graph_pieces import Cutter, GraphCutter, GraphPiece, Piece
from ...converters.minimal_repro.onnx_pieces import OnnxCutter, OnnxPiece
from ...converters.minimal_repro.pt2_pieces import ProgramCutter, ProgramPiece
from ...converters.minimal_repro.saved_model_pieces import SavedModelCutter, SavedModelPiece
from ...converters.minimal_repro.tflite_pieces import TfliteCutter, TflitePiece
from ...converters.minimal_repro.torch_pieces import ModulePiece, ModuleRecorder
from ...models.artifact import read_artifact
from ...models.dataset import write_arrays
from ...models.exported_program import load_program
from ...models.job import Job
from ...models.loading.build import build_model
from ...models.signature import Array
from ...models.sources import read_source
from .script import PIECE, convert_module, convert_onnx, convert_program, full_script
from .script_tensorflow import convert_tensorflow
from .search_records import PieceFacts, SearchOptions
from .trial import WRONG, Failure, OutOfTime, Trial, mentioned_operators, search_smallest
from .trial_samples import Feeds, full_model_failure, record_first_accepted


def find_onnx_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest piece of the ONNX model in inputs["source"]."""
    return _find_in_file(job, OnnxCutter(read_artifact(job.inputs["source"]).path))


def find_saved_model_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest piece of the SavedModel in inputs["source"]."""
    source = read_artifact(job.inputs["source"])
    return _find_in_file(job, SavedModelCutter(source.path, source.signature))


def find_tflite_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest piece of the TFLite file in inputs["source"]."""
    return _find_in_file(job, TfliteCutter(read_artifact(job.inputs["source"]).path))


def _find_in_file(job: Job, cutter: GraphCutter) -> Mapping[str, Any]:
    options, trial = _begin(job)

    def record(feeds: Feeds, _others: Sequence[Feeds]) -> tuple[GraphCutter, GraphPiece | None]:
        cutter.record(feeds)
        return cutter, cutter.whole()

    _, _, failure = full_model_failure(job, trial, record)
    if isinstance(cutter, OnnxCutter):
        cutter.flat = failure.kind == WRONG and not failure.has_lost_layout
    return _find_in_graph(job, options, cutter, trial, failure)


def find_program_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest piece of the exported program in inputs["source"].
    A piece is a module of the program's own operators, which is exported again as the step's input."""
    options, trial = _begin(job)
    artifact = read_artifact(job.inputs["source"])
    make = partial(ProgramCutter, load_program(artifact.path), artifact.signature)

    def record(first: Feeds, others: Sequence[Feeds]) -> tuple[ProgramCutter, GraphPiece | None]:
        cutter = record_first_accepted(make, first, others)
        return cutter, cutter.whole()

    cutter, _, failure = full_model_failure(job, trial, record)
    return _find_in_graph(job, options, cutter, trial, failure)


def _find_in_graph(
    job: Job, options: SearchOptions, cutter: Cutter, trial: Trial, full_failure: Failure
) -> Mapping[str, Any]:
    suspects = mentioned_operators(full_failure.message, cutter.operators)
    index, piece, failure = search_smallest(cutter, trial, full_failure, suspects)
    if piece.suffix:
        piece.save(job.out / f"{PIECE}{piece.suffix}")
    return _write_repro(job, options, piece, failure, trial.facts(failure, piece.operators, *cutter.describe(index)))


def find_module(job: Job) -> Mapping[str, Any]:
    """Find the smallest module of the source in inputs["source"], which the script builds again.
    The search descends as long as one of the inner modules fails alone, with the inputs that it has in the model.
    `operators` is None in the facts, and `operator` the module's class."""
    options, trial = _begin(job)
    source = job.inputs["source"]
    make = partial(ModuleRecorder, build_model(source), read_source(source).signature)

    def record(first: Feeds, others: Sequence[Feeds]) -> tuple[ModuleRecorder, ModulePiece | None]:
        recorder = record_first_accepted(make, first, others)
        return recorder, recorder.piece("")

    recorder, piece, full_failure = full_model_failure(job, trial, record)
    failure = full_failure
    try:
        while inner := _failing_inside(recorder, piece, trial, full_failure):
            piece, failure = inner
    except OutOfTime:
        print("out of time: the smallest module so far is taken")
    shutil.copytree(source, job.out / f"{PIECE}.source")
    reported = replace(failure, fix=full_failure.fix)  # a fix may name inputs: the user knows those of the full model
    facts = trial.facts(reported, None, type(piece.module).__name__, piece.description, None)
    return _write_repro(job, options, piece, failure, facts)


def _failing_inside(
    recorder: ModuleRecorder, outer: ModulePiece, trial: Trial, full_failure: Failure
) -> tuple[ModulePiece, Failure] | None:
    """Return the first inner module that fails alone in the same way."""
    for path in recorder.inside(outer.path):
        piece = recorder.piece(path)
        if piece and (failure := trial(piece)) and failure.is_like(full_failure):
            return piece, failure
    return None


def _begin(job: Job) -> tuple[SearchOptions, Trial]:
    options = SearchOptions.from_json(job.options)
    return options, Trial(options.chain, options.least_db, Path.cwd(), options.seconds)


def _write_repro(
    job: Job, options: SearchOptions, piece: Piece, failure: Failure, facts: PieceFacts
) -> Mapping[str, Any]:
    """Write the piece's arrays, each under `KIND/NAME` as `in/x`, and the script that reads them; return the facts."""
    groups: dict[str, Mapping[str, Array]] = {
        "in": piece.feeds, "expected": piece.expected, "got": failure.outputs or {},
    }  # fmt: skip
    if isinstance(piece, ProgramPiece | ModulePiece):
        groups["example"] = piece.second_feeds
    if isinstance(piece, ProgramPiece):
        groups["weight"] = piece.weights
    arrays = {f"{kind}/{name}": array for kind, group in groups.items() for name, array in group.items()}
    write_arrays(job.out / f"{PIECE}.npz", arrays)
    match piece:
        case OnnxPiece():
            conversion = convert_onnx(options, piece)
        case SavedModelPiece() | TflitePiece():
            conversion = convert_tensorflow(options, piece)
        case ProgramPiece():
            conversion = convert_program(options, piece)
        case ModulePiece():
            conversion = convert_module(options, piece, read_source(job.inputs["source"]).ref.root)
        case _:
            raise TypeError(type(piece))
    (job.out / f"{PIECE}.py").write_text(full_script(options, facts, conversion))
    return facts.to_json()
