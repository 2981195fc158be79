"""The smallest module of a PyTorch model at which a step fails as it does at the whole. Worker only.

From the whole down: as long as one of the modules inside fails by itself, with what it is fed in the model, that one.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..converters.shrink_torch import Piece, Recorder
from ..models.calls import feeds_of
from ..models.dataset import write_arrays
from ..models.errors import Refused
from ..models.job import Job
from ..models.sources import read_source
from ..models.zoo.build import build_model
from .drift.sessions import read_test_set
from .shrink_onnx import PIECE
from .shrink_script import script_of_torch
from .shrink_trial import OutOfTime, Trial, Trouble

_BATCHES = ((2, 3), (1, 2), (5, 3))  # of the two calls: the first is compared, the second shows what is dynamic


def shrink(job: Job) -> Mapping[str, Any]:
    """Find the module of the source in inputs["source"] that the step of the options fails at, and write a script that
    shows it. Options and facts as in shrink_onnx.py; `operators` is None, `operator` the module's class.

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
    facts = {
        "operators": None,
        "operator": type(piece.module).__name__,
        "where": piece.described,
        "line": None,
        "what": seen.what,
        "fix": seen.fix,
    }
    shutil.copytree(job.inputs["source"], job.out / f"{PIECE}.source")
    groups = {"in": piece.feeds, "expected": piece.expected, "got": seen.got or {}, "example": piece.others}
    arrays = {f"{kind}/{n}": array for kind, group in groups.items() for n, array in group.items()}
    write_arrays(job.out / f"{PIECE}.npz", arrays)
    root = read_source(job.inputs["source"]).ref.root
    script = script_of_torch(
        options, facts, piece.signature, nested=piece.nested, path=piece.path, root=root, kind=seen.kind
    )
    (job.out / f"{PIECE}.py").write_text(script)
    return facts


def _whole_failing(job: Job, trial: Trial) -> tuple[Recorder, Piece, Trouble]:
    model, data = build_model(job.inputs["source"]), read_test_set(job)
    signature = read_source(job.inputs["source"]).signature
    for batches in _BATCHES:
        first, second = (feeds_of(data, np.arange(batch) % len(data), signature) for batch in batches)
        recorder = Recorder(model, first, second)
        piece = recorder.piece("")
        if piece and (trouble := trial(piece.write, piece.feeds, piece.expected)):
            return recorder, piece, trouble
    raise Refused("the whole model does not fail when it is converted once more", fix="read the log of the step")


def _failing_inside(recorder: Recorder, outer: Piece, trial: Trial, whole: Trouble) -> tuple[Piece, Trouble] | None:
    """The first module inside that fails in the same way by itself."""
    for path in recorder.inside(outer.path):
        piece = recorder.piece(path)
        seen = trial(piece.write, piece.feeds, piece.expected) if piece else None
        if piece and seen and seen.like(whole):
            return piece, seen
    return None
