"""The smallest part of an ONNX model at which a step fails as it does at the whole. Worker only.

First the shortest beginning of the graph that fails, by bisection: its last operator is where it happens. Then that
operator alone, fed with what it is fed in the model; then it with those before it, two, four, eight.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..converters.shrink_onnx import Cutter, Piece, described, line_of
from ..models.artifact import read_artifact
from ..models.calls import feeds_of
from ..models.dataset import write_arrays
from ..models.errors import Refused
from ..models.job import Job
from .drift.sessions import read_test_set
from .shrink_script import script_of_onnx
from .shrink_trial import WRONG, OutOfTime, Trial, Trouble, first_failing

PIECE = "piece"  # the name of the files in the result, before the run gives them its own
_BATCHES = (2, 1, 5)


def shrink(job: Job) -> Mapping[str, Any]:
    """Find the piece of the artifact in inputs["source"] that the step of the options fails at, and write it with a
    script that shows it.

    Options: step, chain, target, least_db, seconds, model. The facts are {operators, operator, where, line,
    what, fix}. Raises Refused where the whole does not fail here, or cannot be run to compare with.
    """
    options = job.options
    trial = Trial(options["chain"], options["least_db"], Path.cwd(), options["seconds"])
    cutter = Cutter(read_artifact(job.inputs["source"]).path)
    trouble, at, found = _search(cutter, trial, job)
    if found is None:
        raise Refused(f"the step does not fail at any part of the model alone: {trouble.what}", fix="read its log")
    piece, seen = found
    node = cutter.nodes[at]
    _write(job.out, piece, seen)
    facts = {
        "operators": piece.operators,
        "operator": node.op_type,
        "where": described(node),
        "line": line_of(node),
        "what": seen.what,
        "fix": seen.fix,
    }
    (job.out / f"{PIECE}.py").write_text(script_of_onnx(options, facts, piece.signature, kind=seen.kind))
    return facts


def _search(cutter: Cutter, trial: Trial, job: Job) -> tuple[Trouble, int, tuple[Piece, Trouble] | None]:
    """How the whole fails; the node where it happens; the smallest piece that fails so, and how."""
    best: tuple[Piece, Trouble] | None = None
    whole = _whole_failing(cutter, trial, job)
    at = len(cutter.nodes) - 1

    def fails(chosen: list[int]) -> bool:
        nonlocal best
        piece = cutter.piece(chosen, flat=whole.kind == WRONG and not whole.moved)
        if piece is None:
            return False
        seen = trial(piece.write, piece.feeds, piece.expected)
        if seen is None or not seen.like(whole):
            return False
        if best is None or piece.operators < best[0].operators:
            best = piece, seen
        return True

    try:
        at = first_failing(len(cutter.nodes), lambda count: fails(list(range(count)))) - 1
        size = 1
        while best is None or size < best[0].operators:
            if fails(cutter.behind(at, size)):
                break
            size *= 2
            if size > len(cutter.nodes):
                break
    except OutOfTime:
        print("out of time: the smallest piece so far is taken")
    return whole, at, best


def _whole_failing(cutter: Cutter, trial: Trial, job: Job) -> Trouble:
    """How the whole model fails, with the samples of the first batch size at which it does; the cutter holds them.

    Raises Refused where it fails at none.
    """
    artifact, data = read_artifact(job.inputs["source"]), read_test_set(job)
    everything = range(len(cutter.nodes))
    for batch in _BATCHES:
        cutter.record(feeds_of(data, np.arange(batch) % len(data), artifact.signature))
        piece = cutter.piece(everything)
        if piece and (trouble := trial(piece.write, piece.feeds, piece.expected)):
            return trouble
    raise Refused("the whole model does not fail when it is converted once more", fix="read the log of the step")


def _write(out: Path, piece: Piece, seen: Trouble) -> None:
    piece.save(out / f"{PIECE}.onnx")
    groups = {"in": piece.feeds, "expected": piece.expected, "got": seen.got or {}}
    write_arrays(
        out / f"{PIECE}.npz", {f"{kind}/{n}": array for kind, group in groups.items() for n, array in group.items()}
    )
