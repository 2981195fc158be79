"""The smallest module of a PyTorch model at which a step fails as it does at the full model. Worker only.

The search descends as long as one of the inner modules fails alone, with the inputs that it has in the model.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...converters.minimal_repro.torch_pieces import ModulePiece, ModuleRecorder
from ...models.job import Job
from ...models.loading.build import build_model
from ...models.sources import read_source
from .script import PIECE, script_of_module
from .search_records import SearchOptions
from .trial import Failure, OutOfTime, Trial, refuse_no_failure, repro_facts
from .trial_samples import record_first_accepted, recorded_calls, write_groups


def find_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest module of the source in inputs["source"] at which a step fails; write a script that shows it.

    Options and facts as in onnx_search.py; `operators` is None, `operator` the module's class. Raises Refused if the
    full model does not fail here.
    """
    options = SearchOptions.from_json(job.options)
    trial = Trial(options.chain, options.least_db, Path.cwd(), options.seconds)
    recorder, piece, failure = _full_model_failure(job, trial)
    full_failure = failure
    try:
        while inner := _failing_inside(recorder, piece, trial, full_failure):
            piece, failure = inner
    except OutOfTime:
        print("out of time: the smallest module so far is taken")
    reported = replace(failure, fix=full_failure.fix)  # a fix may name inputs: the user knows those of the full model
    facts = repro_facts(reported, None, type(piece.module).__name__, piece.description, None, trial)
    shutil.copytree(job.inputs["source"], job.out / f"{PIECE}.source")
    data = {"in": piece.feeds, "expected": piece.expected, "got": failure.outputs or {}, "example": piece.second_feeds}
    write_groups(job.out / f"{PIECE}.npz", **data)
    root = read_source(job.inputs["source"]).ref.root
    script = script_of_module(
        options, facts, piece.signature, nested=piece.nested, path=piece.path, root=root, kind=failure.kind
    )
    (job.out / f"{PIECE}.py").write_text(script)
    return facts.to_json()


def _full_model_failure(job: Job, trial: Trial) -> tuple[ModuleRecorder, ModulePiece, Failure]:
    model, signature = build_model(job.inputs["source"]), read_source(job.inputs["source"]).signature
    for first, second_candidates in recorded_calls(job):
        recorder = record_first_accepted(partial(ModuleRecorder, model, signature), first, second_candidates)
        piece = recorder.piece("")
        if piece and (failure := trial(piece.write, piece.feeds, piece.expected)):
            return recorder, piece, failure
    raise refuse_no_failure()


def _failing_inside(
    recorder: ModuleRecorder, outer: ModulePiece, trial: Trial, full_failure: Failure
) -> tuple[ModulePiece, Failure] | None:
    """Return the first inner module that fails alone in the same way."""
    for path in recorder.inside(outer.path):
        piece = recorder.piece(path)
        failure = trial(piece.write, piece.feeds, piece.expected) if piece else None
        if piece and failure and failure.is_like(full_failure):
            return piece, failure
    return None
