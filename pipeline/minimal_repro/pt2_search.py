"""The smallest part of an exported program at which a step fails as it does at the full program. Worker only.

A piece is a module of the program's own operators, which is exported again as the step's input.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...converters.minimal_repro.pt2_pieces import ProgramCutter, describe_node, line_of
from ...models.artifact import read_artifact
from ...models.exported_program import load_program
from ...models.job import Job
from .script import PIECE, script_of_program
from .search_records import SearchOptions
from .trial import Failure, Trial, refuse_no_failure, repro_facts, require_piece, search_smallest
from .trial_samples import record_first_accepted, recorded_calls, write_groups


def find_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest piece of the program in inputs["source"] at which a step fails; write it and a script.

    Options and facts as in onnx_search.py; the chain begins with torch.export. Raises Refused if the full program does
    not fail here.
    """
    options = SearchOptions.from_json(job.options)
    trial = Trial(options.chain, options.least_db, Path.cwd(), options.seconds)
    cutter, full_failure = _full_program_failure(job, trial)
    index, result = search_smallest(len(cutter.nodes), cutter.piece, cutter.with_predecessors, trial, full_failure)
    piece, failure = require_piece(result, full_failure, trial)
    node = cutter.nodes[index]
    data = {"in": piece.feeds, "expected": piece.expected, "got": failure.outputs or {}, "example": piece.second_feeds}
    write_groups(job.out / f"{PIECE}.npz", **data, weight=piece.weights)
    facts = repro_facts(failure, piece.operators, str(node.target), describe_node(node), line_of(node), trial)
    text = script_of_program(options, facts, piece.signature, imports=piece.imports, code=piece.code, kind=failure.kind)
    (job.out / f"{PIECE}.py").write_text(text)
    return facts.to_json()


def _full_program_failure(job: Job, trial: Trial) -> tuple[ProgramCutter, Failure]:
    artifact = read_artifact(job.inputs["source"])
    program = load_program(artifact.path)
    for first, second_candidates in recorded_calls(job):
        cutter = record_first_accepted(partial(ProgramCutter, program, artifact.signature), first, second_candidates)
        piece = cutter.piece(range(len(cutter.nodes)))
        if piece and (failure := trial(piece.write, piece.feeds, piece.expected)):
            return cutter, failure
    raise refuse_no_failure()
