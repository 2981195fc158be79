"""Searches for the smallest part of a model at which a step fails as it does at the full model. Worker only.

Each writes the piece and a script to the job's folder, and returns PieceFacts; the options are SearchOptions. Each
raises Refused if the full model does not fail here, or cannot be run to compare with.

The samples are those of the calls with which artifacts are validated: an artifact may be wrong only at a size that the
data does not have.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ...converters.minimal_repro.graph_pieces import Cutter, GraphCutter, Piece
from ...converters.minimal_repro.onnx_pieces import OnnxCutter, OnnxPiece
from ...converters.minimal_repro.pt2_pieces import ProgramCutter, ProgramPiece
from ...converters.minimal_repro.saved_model_pieces import SavedModelPiece
from ...converters.minimal_repro.tflite_pieces import TflitePiece
from ...converters.minimal_repro.torch_pieces import ModulePiece, ModuleRecorder
from ...models.array_file import write_arrays
from ...models.artifact import read_artifact
from ...models.dataset import Dataset
from ...models.errors import Refused
from ...models.exported_program import load_program
from ...models.extensible_table import load_entry
from ...models.job import Job
from ...models.loading.build import build_model
from ...models.probes.feeds import make_feeds, sizes_in
from ...models.probes.probe_set import PROBE_SAMPLES, Probe, describe_values
from ...models.probes.sizes import bounds_within
from ...models.signature import Array, TensorSpec
from ...models.sources import read_source
from ..drift.recorded_answers import ReferenceRecord, read_record
from ..drift.sessions import read_test_set
from .script import PIECE, convert_by_step, convert_module, convert_program, full_script
from .script_tensorflow import convert_tensorflow
from .search_records import PieceFacts, SearchOptions
from .trial import WRONG, Failure, OutOfTime, Trial, mentioned_operators, search_smallest

Feeds: TypeAlias = Mapping[str, Array]
_T = TypeVar("_T")
_P = TypeVar("_P", bound=Piece)


def find_graph_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest piece of the file or folder in inputs["source"]."""
    source = read_artifact(job.inputs["source"])
    cutter: GraphCutter = load_entry(source.target.format.spec.cutter)(source)
    trial = Trial(SearchOptions.from_json(job.options), Path.cwd())

    def record(feeds: Feeds, _candidates: Sequence[Feeds]) -> GraphCutter:
        cutter.record(feeds)
        return cutter

    _, _, failure = _full_model_failure(job, trial, record, GraphCutter.full_model)
    if isinstance(cutter, OnnxCutter):
        cutter.flat = failure.kind == WRONG and not failure.has_lost_layout
    return _find_in_graph(job, cutter, trial, failure)


def find_program_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest piece of the exported program in inputs["source"].
    A piece is a module of the program's own operators, which is exported again as the step's input."""
    trial = Trial(SearchOptions.from_json(job.options), Path.cwd())
    artifact = read_artifact(job.inputs["source"])
    make = partial(ProgramCutter, load_program(artifact.path), artifact.signature)
    cutter, _, failure = _full_model_failure(job, trial, partial(_first_accepted, make), ProgramCutter.full_model)
    return _find_in_graph(job, cutter, trial, failure)


def _find_in_graph(job: Job, cutter: Cutter, trial: Trial, full_failure: Failure) -> Mapping[str, Any]:
    suspects = mentioned_operators(full_failure.message, cutter.operators)
    index, piece, failure = search_smallest(cutter, trial, full_failure, suspects)
    if piece.suffix:
        piece.save(job.out / f"{PIECE}{piece.suffix}")
    return _write_repro(job, trial, piece, failure, trial.facts(failure, piece.operators, *cutter.describe(index)))


def find_module(job: Job) -> Mapping[str, Any]:
    """Find the smallest module of the source in inputs["source"], which the script builds again.
    The search descends as long as one of the inner modules fails alone, with the inputs that it has in the model.
    `operators` is None in the facts, and `operator` the module's class."""
    trial = Trial(SearchOptions.from_json(job.options), Path.cwd())
    source = job.inputs["source"]
    make = partial(ModuleRecorder, build_model(source), read_source(source).signature)
    recorder, piece, full_failure = _full_model_failure(
        job, trial, partial(_first_accepted, make), lambda recorder: recorder.piece("")
    )
    failure = full_failure
    try:
        while inner := _failing_inside(recorder, piece, trial, full_failure):
            piece, failure = inner
    except OutOfTime:
        print("out of time: the smallest module so far is taken")
    shutil.copytree(source, job.out / f"{PIECE}.source")
    reported = replace(failure, fix=full_failure.fix)  # a fix may name inputs: the user knows those of the full model
    facts = trial.facts(reported, None, type(piece.module).__name__, piece.description, None)
    return _write_repro(job, trial, piece, failure, facts)


def _failing_inside(
    recorder: ModuleRecorder, outer: ModulePiece, trial: Trial, full_failure: Failure
) -> tuple[ModulePiece, Failure] | None:
    """Return the first inner module that fails alone in the same way."""
    for path in recorder.inside(outer.path):
        piece = recorder.piece(path)
        if piece and (failure := trial(piece)) and failure.is_like(full_failure):
            return piece, failure
    return None


def _write_repro(job: Job, trial: Trial, piece: Piece, failure: Failure, facts: PieceFacts) -> Mapping[str, Any]:
    """Write the piece's arrays, each under `KIND/NAME` as `in/x`, and the script that reads them; return the facts."""
    groups = {"in": piece.feeds, "expected": piece.expected, "got": failure.outputs or {}}
    if isinstance(piece, ProgramPiece | ModulePiece):
        groups["example"] = piece.second_feeds
    if isinstance(piece, ProgramPiece):
        groups["weight"] = piece.weights
    arrays = {f"{kind}/{name}": array for kind, group in groups.items() for name, array in group.items()}
    write_arrays(job.out / f"{PIECE}.npz", arrays)
    match piece:
        case OnnxPiece():
            conversion = convert_by_step(trial.options, piece)
        case SavedModelPiece() | TflitePiece():
            conversion = convert_tensorflow(trial.options, piece)
        case ProgramPiece():
            conversion = convert_program(trial.options, piece)
        case ModulePiece():
            conversion = convert_module(trial.options, piece, read_source(job.inputs["source"]).ref.root)
        case _:
            raise TypeError(type(piece))
    (job.out / f"{PIECE}.py").write_text(full_script(trial.options, facts, conversion))
    return facts.to_json()


def recorded_calls(job: Job) -> Iterator[tuple[Feeds, list[Feeds]]]:
    """Yield the feeds of each call in inputs["reference"], made from inputs["data"], and candidates of a second call.
    There is one call for each batch, each other size of an axis and each size of integers. In the second call every
    dynamic axis has another size, at least the batch; any of the candidates will do. An axis that changes between the
    calls is dynamic. Options: reason, why the artifact was refused."""
    record = read_record(job.inputs["reference"])
    data = read_test_set(job, record.signature.inputs)
    reason = job.options["reason"]
    data_sizes = sizes_in(data, record.signature)
    answered = {axis: size for probe in record.probes for axis, size in probe.sizes.items()}
    for probe in sorted(record.probes, key=lambda probe: _order(probe, record.signature.inputs, reason)):
        sizes = {**data_sizes, **probe.sizes}
        own_sizes = {axis: data_sizes[axis] for axis in probe.sizes if axis in data_sizes}
        all_others = {axis: answered.get(axis, size) for axis, size in sizes.items()} | own_sizes
        batch = _other_batch(record, probe.batch)
        second_candidates = [_feeds(data, record, Probe(batch, other)) for other in (all_others, own_sizes)]
        yield _feeds(data, record, probe), second_candidates


def _full_model_failure(
    job: Job, trial: Trial, record: Callable[[Feeds, Sequence[Feeds]], _T], as_piece: Callable[[_T], _P | None]
) -> tuple[_T, _P, Failure]:
    """Return the full model's failure at the first samples at which it fails, with what `record` made of these.
    `as_piece` makes that a piece, which is returned too. Raises Refused if the full model fails at none."""
    for first, second_candidates in recorded_calls(job):
        recorded = record(first, second_candidates)
        piece = as_piece(recorded)
        if piece and (failure := trial(piece)):
            return recorded, piece, failure
    raise Refused("the whole model does not fail when it is converted once more", fix="read the log of the step")


def _first_accepted(make: Callable[[Feeds, Feeds], _T], first: Feeds, second_candidates: Sequence[Feeds]) -> _T:
    """Return `make` of the first call and the first second call that the model accepts: it may refuse some sizes."""
    *tries, last = second_candidates
    for second in tries:
        try:
            return make(first, second)
        except Exception as error:  # noqa: BLE001  (a model may raise anything for sizes)
            print(f"the model does not take several other sizes at once: {error}")
    return make(first, last)


def _order(probe: Probe, specs: Sequence[TensorSpec], reason: str) -> tuple[bool, bool, bool, bool, int]:
    """Return a sort key: probes that the refusal names come first, then the data's own sizes with several samples.
    With one sample an axis cannot be told from another; a batch of more samples than others see takes long."""
    sizes = ", ".join(f"{axis}={size}" for axis, size in probe.sizes.items())  # worded as in drift/check.py
    description = describe_values(probe, specs) or (sizes and f"at {sizes}")
    is_named = bool(description) and f"{description}: " in reason
    return not is_named, bool(description), probe.batch > PROBE_SAMPLES, probe.batch == 1, probe.batch


def _other_batch(record: ReferenceRecord, batch: int) -> int:
    bounds = bounds_within(record.signature.inputs, record.signature.batch)
    return next((size for size in map(bounds.nearest, (batch + 1, batch - 1)) if size != batch), batch)


def _feeds(data: Dataset, record: ReferenceRecord, probe: Probe) -> Feeds:
    samples = probe.of(data)
    return make_feeds(samples, np.arange(probe.batch) % len(samples), record.signature, probe.sizes)
