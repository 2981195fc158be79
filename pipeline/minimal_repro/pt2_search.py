"""The smallest part of an exported program at which a step fails as it does at the whole. Worker only.

A piece is a module of the program's own operators: it is exported once more, and the step is given that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...converters.minimal_repro.pt2_pieces import Cutter, described, line_of
from ...models.artifact import read_artifact
from ...models.exported_program import load_program
from ...models.job import Job
from .script import PIECE, script_of_program
from .trial import Trial, Trouble, does_not_fail, facts_of, found_or_refused, smallest
from .trial_samples import calls, recorded, write_groups


def shrink(job: Job) -> Mapping[str, Any]:
    """Find the piece of the program in inputs["source"] that the step of the options fails at, and write it with a
    script that shows it. Options and facts as in onnx.py; the chain begins with torch.export.

    Raises Refused where the whole does not fail here.
    """
    options = job.options
    trial = Trial(options["chain"], options["least_db"], Path.cwd(), options["seconds"])
    cutter, whole = _whole_failing(job, trial)
    at, found = smallest(len(cutter.nodes), cutter.piece, cutter.behind, trial, whole)
    piece, seen = found_or_refused(found, whole, trial)
    node = cutter.nodes[at]
    kinds = {"in": piece.feeds, "expected": piece.expected, "got": seen.got or {}, "example": piece.others}
    write_groups(job.out / f"{PIECE}.npz", **kinds, weight=piece.weights)
    facts = facts_of(seen, piece.operators, str(node.target), described(node), line_of(node), trial)
    script = script_of_program(options, facts, piece.signature, imports=piece.imports, code=piece.code, kind=seen.kind)
    (job.out / f"{PIECE}.py").write_text(script)
    return facts


def _whole_failing(job: Job, trial: Trial) -> tuple[Cutter, Trouble]:
    artifact = read_artifact(job.inputs["source"])
    program = load_program(artifact.path)
    for first, seconds in calls(job):
        cutter = recorded(partial(Cutter, program, artifact.signature), first, seconds)
        piece = cutter.piece(range(len(cutter.nodes)))
        if piece and (trouble := trial(piece.write, piece.feeds, piece.expected)):
            return cutter, trouble
    raise does_not_fail()
