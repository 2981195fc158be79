"""The smallest module of a PyTorch model at which a step fails as it does at the whole. Worker only.

From the whole down: as long as one of the modules inside fails by itself, with what it is fed in the model, that one.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...converters.minimal_repro.torch_pieces import Piece, Recorder
from ...models.job import Job
from ...models.loading.build import build_model
from ...models.sources import read_source
from .script import PIECE, script_of_module
from .trial import OutOfTime, Trial, Trouble, does_not_fail, facts_of
from .trial_samples import calls, recorded, write_groups


def shrink(job: Job) -> Mapping[str, Any]:
    """Find the module of the source in inputs["source"] that the step of the options fails at, and write a script that
    shows it. Options and facts as in onnx.py; `operators` is None, `operator` the module's class.

    Raises Refused where the whole does not fail here.
    """
    options = job.options
    trial = Trial(options["chain"], options["least_db"], Path.cwd(), options["seconds"])
    recorder, piece, seen = _whole_failing(job, trial)
    whole = seen
    try:
        while inner := _failing_inside(recorder, piece, trial, whole):
            piece, seen = inner
    except OutOfTime:
        print("out of time: the smallest module so far is taken")
    told = replace(seen, fix=whole.fix)  # a mend may name inputs: the person has those of the whole
    facts = facts_of(told, None, type(piece.module).__name__, piece.described, None, trial)
    shutil.copytree(job.inputs["source"], job.out / f"{PIECE}.source")
    kinds = {"in": piece.feeds, "expected": piece.expected, "got": seen.got or {}, "example": piece.others}
    write_groups(job.out / f"{PIECE}.npz", **kinds)
    root = read_source(job.inputs["source"]).ref.root
    script = script_of_module(
        options, facts, piece.signature, nested=piece.nested, path=piece.path, root=root, kind=seen.kind
    )
    (job.out / f"{PIECE}.py").write_text(script)
    return facts


def _whole_failing(job: Job, trial: Trial) -> tuple[Recorder, Piece, Trouble]:
    model, signature = build_model(job.inputs["source"]), read_source(job.inputs["source"]).signature
    for first, seconds in calls(job):
        recorder = recorded(partial(Recorder, model, signature), first, seconds)
        piece = recorder.piece("")
        if piece and (trouble := trial(piece.write, piece.feeds, piece.expected)):
            return recorder, piece, trouble
    raise does_not_fail()


def _failing_inside(recorder: Recorder, outer: Piece, trial: Trial, whole: Trouble) -> tuple[Piece, Trouble] | None:
    """The first module inside that fails in the same way by itself."""
    for path in recorder.inside(outer.path):
        piece = recorder.piece(path)
        seen = trial(piece.write, piece.feeds, piece.expected) if piece else None
        if piece and seen and seen.like(whole):
            return piece, seen
    return None
