"""The smallest part of an ONNX model at which a step fails as it does at the full model. Worker only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...converters.minimal_repro.onnx_pieces import OnnxCutter, describe_node, line_of
from ...models.artifact import read_artifact
from ...models.job import Job
from .script import PIECE, script_of_onnx
from .search_records import SearchOptions
from .trial import WRONG, Trial, mentioned_operators, repro_facts, require_piece, search_smallest
from .trial_samples import full_model_failure, write_groups


def find_piece(job: Job) -> Mapping[str, Any]:
    """Find the smallest piece of the artifact in inputs["source"] at which a step fails; write it and a script.

    Options: step, reason, chain, target, least_db, seconds, model. Facts: operators, operator, where, line, what, fix,
    whole. Raises Refused if the full model does not fail here, or cannot be run to compare with.
    """
    options = SearchOptions.from_json(job.options)
    trial = Trial(options.chain, options.least_db, Path.cwd(), options.seconds)
    cutter = OnnxCutter(read_artifact(job.inputs["source"]).path)
    full_failure = full_model_failure(cutter, trial, job)
    flat = full_failure.kind == WRONG and not full_failure.has_lost_layout
    mentioned = mentioned_operators(full_failure.message, [(node.op_type, node.name) for node in cutter.nodes])
    index, result = search_smallest(
        len(cutter.nodes),
        lambda chosen: cutter.piece(chosen, flat=flat),
        cutter.graph.with_predecessors,
        trial,
        full_failure,
        mentioned,
    )
    piece, failure = require_piece(result, full_failure, trial)
    node = cutter.nodes[index]
    piece.save(job.out / f"{PIECE}.onnx")
    arrays = {"in": piece.feeds, "expected": piece.expected, "got": failure.outputs or {}}
    write_groups(job.out / f"{PIECE}.npz", **arrays)
    facts = repro_facts(failure, piece.operators, node.op_type, describe_node(node), line_of(node), trial)
    (job.out / f"{PIECE}.py").write_text(script_of_onnx(options, facts, piece.signature, kind=failure.kind))
    return facts.to_json()
