"""Ask an artifact a few calls, and keep inputs and answers: what an endpoint of it is later compared with.

answer_golden  inputs {artifact, data}   -> {device, calls}; golden.npz, which `read_golden` reads
replay_golden  inputs {artifact, golden} -> {device}; raises SessionLost where it answers otherwise
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...models.dataset import Dataset
from ...models.job import Facts, Job
from ...models.probes.feeds import group_into_calls, make_feeds
from ...models.probes.sizes import batches_within
from ...models.signature import Array, Signature
from ...serving.bundles.bundle_records import GoldenCall
from ...serving.server.repository.version_check import check_version
from .drift_records import SessionOptions
from .sessions import default_runtime, open_for, read_test_set

_FILE = "golden.npz"
_BATCHES = (1, 1, 3)  # of the calls, each of other samples
_MOST_BYTES = 16 << 20  # of all calls but the first, which is kept whatever it takes


@dataclass(frozen=True, kw_only=True)
class GoldenFacts(Facts):
    """Golden samples that were answered."""

    device: str
    calls: int


def answer_golden(job: Job) -> Mapping[str, Any]:
    """Ask the artifact a call of one sample, a call of another, and a call of three, or the sizes that it takes.

    SessionOptions -> GoldenFacts. Raises BadRequest where the samples do not fit the artifact.
    """
    options = SessionOptions.from_json(job.options)
    runtime = options.runtime or default_runtime(job.inputs["artifact"])
    arrays: dict[str, Array] = {}
    calls = used = 0
    with closing(open_for(job, "artifact", runtime, options)) as session:
        signature = session.signature
        data = group_into_calls(signature.inputs, read_test_set(job, signature.inputs))
        for feeds in _feeds(data, signature):
            answers = session.run(feeds)
            used += sum(array.nbytes for array in (*feeds.values(), *answers.values()))
            if calls and used > _MOST_BYTES:
                break
            arrays |= {_key(calls, "in", at): feeds[spec.name] for at, spec in enumerate(signature.inputs)}
            arrays |= {_key(calls, "out", at): answers[spec.name] for at, spec in enumerate(signature.outputs)}
            calls += 1
        device = session.device
    np.savez(job.out / _FILE, allow_pickle=False, **arrays)
    return GoldenFacts(device=device, calls=calls).to_json()


def replay_golden(job: Job) -> Mapping[str, Any]:
    """Ask the artifact the golden samples in inputs["golden"], a folder with golden.json, and compare its answers.

    SessionOptions -> GoldenFacts. Raises SessionLost where an answer lies beyond their tolerance.
    """
    options = SessionOptions.from_json(job.options)
    runtime = options.runtime or default_runtime(job.inputs["artifact"])
    with closing(open_for(job, "artifact", runtime, options)) as session:
        check_version(session, job.inputs["golden"])
        return GoldenFacts(device=session.device, calls=0).to_json()


def read_golden(folder: Path, signature: Signature, calls: int) -> tuple[GoldenCall, ...]:
    """Read the calls that `answer_golden` wrote for a model of this signature."""
    with np.load(folder / _FILE, allow_pickle=False) as arrays:
        return tuple(
            GoldenCall(
                {spec.name: arrays[_key(call, "in", at)] for at, spec in enumerate(signature.inputs)},
                {spec.name: arrays[_key(call, "out", at)] for at, spec in enumerate(signature.outputs)},
            )
            for call in range(calls)
        )


def _feeds(data: Dataset, signature: Signature) -> Iterator[dict[str, Array]]:
    """Yield the inputs of every call; the samples begin again where there are too few."""
    start = 0
    for wanted in _BATCHES:
        (batch,) = batches_within(signature.inputs, (wanted,))
        yield make_feeds(data, np.arange(start, start + batch) % len(data), signature)
        start += batch


def _key(call: int, side: str, at: int) -> str:
    """Return the name of an array: inputs may have names that no file in an archive can have."""
    return f"{call}-{side}-{at}"
