"""Search for inputs that a model's file takes where it refuses random samples.

A file of ONNX, torch.export, TensorFlow or TFLite is asked through a session. Code and TorchScript are asked as
modules, before anything is recorded of them (models/loading/refused_inputs.py).

find_inputs    inputs {model, data}   -> {inputs, notes}; the inputs are empty where none that were tried have an answer
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...models.artifact import read_artifact
from ...models.extensible_table import load_entry
from ...models.job import Job
from ...models.probes.accepted_sizes import describe_bounds, find_bounds
from ...models.probes.accepted_values import describe_values, find_refused, find_values
from ...models.probes.feeds import sizes_in
from ...models.probes.probe_set import Probe
from ...models.probes.sizes import batches_within, with_bounds
from ...models.probes.stress_values import free_integers
from ...models.signature import TensorSpec, bounds_of
from ..drift.call_time_limit import CallTimeLimit, limit_calls
from ..drift.drift_records import AcceptedFacts, SessionOptions
from ..drift.sessions import SampleTrial, batches_of, default_runtime, open_for, read_test_set

_UNKNOWN = tuple(2**power for power in range(1, 13))  # rows of tables that a file does not show


def find_inputs(job: Job) -> Mapping[str, Any]:
    """Search for values, else for sizes, at which a model answers: SessionOptions -> AcceptedFacts.
    Values come first: an index out of range is refused at every size."""
    options = SessionOptions.from_json(job.options)
    runtime = options.runtime or default_runtime(job.inputs["model"])
    with closing(limit_calls(open_for(job, "model", runtime, options), CallTimeLimit(job.answer_s))) as session:
        trial = SampleTrial(session, read_test_set(job, session.signature.inputs))
        batch = max(batches_within(session.signature.inputs, batches_of(options)))
        facts = _with_values(trial, Probe(batch), _tables(job, trial)) or _with_sizes(trial, batch)
    return (facts or AcceptedFacts()).to_json()


def _tables(job: Job, trial: SampleTrial) -> Sequence[int]:
    """Return how many rows the tables of the model have, as far as it shows them."""
    artifact = read_artifact(job.inputs["model"])
    entry = artifact.target.format.spec.table_sizes
    return sorted(load_entry(entry)(artifact.path)) if entry else trial.tables


def _with_values(trial: SampleTrial, probe: Probe, tables: Sequence[int]) -> AcceptedFacts | None:
    inputs = trial.session.signature.inputs
    accepts = partial(trial.accepts_values, probe)
    for specs, integers in _kinds(inputs):
        refused = find_refused([spec.name for spec in specs], accepts)
        if ranges := find_values(refused, accepts, tables or _UNKNOWN, integers=integers):
            changed = tuple(replace(spec, values=ranges.get(spec.name, spec.values)) for spec in inputs)
            notes = (describe_values(spec, ranges[spec.name], tables) for spec in inputs if spec.name in ranges)
            return AcceptedFacts(inputs=changed, notes=tuple(notes))
    return None


def _kinds(inputs: Sequence[TensorSpec]) -> Iterator[tuple[Sequence[TensorSpec], bool]]:
    """Yield the inputs of integers and those of floats that have no declared values, and whether they are integers."""
    yield free_integers(inputs), True
    yield [spec for spec in inputs if np.dtype(spec.dtype).kind == "f" and spec.values is None], False


def _with_sizes(trial: SampleTrial, batch: int) -> AcceptedFacts | None:
    signature = trial.session.signature
    own = sizes_in(trial.data, signature)
    bounds = find_bounds(signature.inputs, own, partial(trial.accepts_sizes, batch)) if own else None
    if not bounds:
        return None
    changed = with_bounds(signature.inputs, {**bounds_of(signature.inputs), **bounds})
    return AcceptedFacts(inputs=changed, notes=(describe_bounds(bounds),))
