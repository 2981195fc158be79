"""Propose inputs on both sides of the numbers that a copy compares values with, where the reference's own lack them.

propose    inputs {artifact, data, reference}   -> rows by their source; ProposalFacts
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...models.artifact import read_artifact
from ...models.dataset import Dataset
from ...models.errors import TransloadError
from ...models.job import Job
from ...models.probes.feeds import make_feeds
from ...models.probes.probe_set import OF_COPY
from ...models.probes.sizes import bounds_within, fixed_batch
from ...models.probes.threshold_rows import MOST_ROWS, NEAR_S, Watch, find_threshold_rows
from ...models.probes.thresholds import Hear, constant_numbers, is_compared
from ...models.signature import Array, Signature
from ..drift.drift_records import ProposalFacts
from ..drift.recorded_answers import read_record, read_sources, write_sources
from ..drift.sessions import read_test_set
from .value_recorder import ValueRecorder, open_recorder

_CALL_BYTES = 256 << 20  # of all values of a call
_KNOWN = 64  # rows of each source


def propose(job: Job) -> Mapping[str, Any]:
    """Propose rows, by what the copy computes inside for the samples and for what the reference was asked."""
    artifact, record = read_artifact(job.inputs["artifact"]), read_record(job.inputs["reference"])
    signature = artifact.signature
    if not artifact.target.format.spec.recorder or fixed_batch(signature.inputs, record.signature.inputs):
        return ProposalFacts().to_json()
    data = read_test_set(job, record.signature.inputs)
    known = [rows.rows(0, _KNOWN) for rows in read_sources(job.inputs["reference"], record.probes).values()]
    try:
        recorder = open_recorder(artifact)
        watch = watch_recorder(recorder)
        most = 1 if signature.batch is None else _most_rows(recorder, signature, data)
        near = find_threshold_rows(signature, data, watch, known=known, source=OF_COPY, most=most)
    except TransloadError as error:
        print(f"no values inside the copy can be seen: {error.what}")  # for the step's log
        return ProposalFacts().to_json()
    print(f"{near}, in {near.seconds:.1f} s of {NEAR_S:g} s")  # for the step's log
    write_sources(job.out, near.rows)
    return ProposalFacts(sources=tuple(near.rows), constants=near.thresholds, unreached=near.unreached).to_json()


def watch_recorder(recorder: ValueRecorder) -> Watch:
    """Return what answers a call and tells of each operator that compares values with numbers."""

    def watch(feeds: Mapping[str, Array], hear: Hear) -> None:
        recorder.record(feeds)
        constants, values, numbers = recorder.constants, recorder.values, getattr(recorder, "numbers", ())
        fixed = set(constants)
        for at, (reads, writes) in enumerate(zip(recorder.reads, recorder.writes, strict=True)):
            if fixed.issuperset(reads):
                fixed.update(writes)
            kind = recorder.operators[at][0]
            if writes and is_compared(kind):
                known = (constants[name] if name in constants else values.get(name) for name in reads if name in fixed)
                own = numbers[at] if numbers else []
                read = [values[name] for name in reads if name in values and name not in fixed]
                # The first calls of TorchScript hold operators that optimise it; the names of values stay.
                hear(writes[0], kind, read, [*own, *constant_numbers(array for array in known if array is not None)])

    return watch


def _most_rows(recorder: ValueRecorder, signature: Signature, data: Dataset) -> int:
    """Return how many rows a call may have whose values are all kept."""
    rows = bounds_within(signature.inputs, signature.batch).filled.low
    recorder.record(make_feeds(data, np.arange(rows) % len(data), signature))
    size = sum(array.nbytes for array in recorder.values.values()) // rows
    return max(1, min(MOST_ROWS, _CALL_BYTES // max(1, size)))
