"""The smallest part of an ONNX model at which a step fails as it does at the whole. Worker only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...converters.minimal_repro.onnx_pieces import Cutter, described, line_of
from ...models.artifact import read_artifact
from ...models.job import Job
from .script import PIECE, script_of_onnx
from .trial import WRONG, Trial, facts_of, found_or_refused, smallest, suspects
from .trial_samples import whole_failing, write_groups


def shrink(job: Job) -> Mapping[str, Any]:
    """Find the piece of the artifact in inputs["source"] that the step of the options fails at, and write it with a
    script that shows it. Samples: samples.py.

    Options: step, reason, chain, target, least_db, seconds, model. The facts are {operators, operator, where, line,
    what, fix, whole}. Raises Refused where the whole does not fail here, or cannot be run to compare with.
    """
    options = job.options
    trial = Trial(options["chain"], options["least_db"], Path.cwd(), options["seconds"])
    cutter = Cutter(read_artifact(job.inputs["source"]).path)
    whole = whole_failing(cutter, trial, job)
    flat = whole.kind == WRONG and not whole.moved
    named = suspects(whole.what, [(node.op_type, node.name) for node in cutter.nodes])
    at, found = smallest(
        len(cutter.nodes), lambda chosen: cutter.piece(chosen, flat=flat), cutter.behind, trial, whole, named
    )
    piece, seen = found_or_refused(found, whole, trial)
    node = cutter.nodes[at]
    piece.save(job.out / f"{PIECE}.onnx")
    kinds = {"in": piece.feeds, "expected": piece.expected, "got": seen.got or {}}
    write_groups(job.out / f"{PIECE}.npz", **kinds)
    facts = facts_of(seen, piece.operators, node.op_type, described(node), line_of(node), trial)
    (job.out / f"{PIECE}.py").write_text(script_of_onnx(options, facts, piece.signature, kind=seen.kind))
    return facts
