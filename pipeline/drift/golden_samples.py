"""Ask an artifact a few calls, and keep inputs and answers: what an endpoint of it is later compared with.

answer_golden  inputs {artifact, data}   -> {device, calls}; golden.npz, which `read_golden` reads
replay_golden  inputs {artifact, golden} -> {device}; raises SessionLost where it answers otherwise
keep_samples   a few of the calls that an artifact was verified with, and the reference's answers, as golden.json
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import GOLDEN
from ...models.dataset import Dataset
from ...models.errors import TransloadError
from ...models.formats import Precision
from ...models.job import Facts, Job
from ...models.probes.feeds import group_into_calls, make_feeds
from ...models.probes.probe_set import Probe
from ...models.probes.sizes import batches_within
from ...models.signature import Array, Signature
from ...serving.bundles.bundle_records import AnswerLimit, Dialect, GoldenCall, GoldenSamples, golden_document
from ...serving.server.repository.version_check import check_version
from ...serving.session import Session
from .check import Check
from .drift_records import SessionOptions
from .probe_result import CheckResult, ProbeCalls
from .rules import LEAST_SQNR_DB, MOST_MISMATCHES
from .sessions import default_runtime, open_for, read_test_set

_FILE = "golden.npz"
_BATCHES = (1, 1, 3)  # of the calls, each of other samples
_KEPT_PROBES = 2  # whose first calls are kept of a check
_MARGIN_DB = 6.0  # a few samples may agree less well than all of them together
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


def keep_samples(
    out: Path, session: Session, check: Check, probes: Sequence[ProbeCalls], results: Sequence[CheckResult]
) -> None:
    """Write golden.json to `out`: calls of a check that the session was verified with, and the reference's answers.
    Nothing is written where they are too large, or where the session, which is right about all calls together, does
    not answer these few within the limit: rounding decides them."""
    signature = check.record.signature
    plain = [calls for calls in probes if calls.probe == Probe(calls.probe.batch)]
    golden_calls = [
        GoldenCall(make_feeds(calls.data, calls.rows[0], signature), calls.answers[0]) for calls in plain[:_KEPT_PROBES]
    ]
    sizes = [sum(array.nbytes for array in (*call.inputs.values(), *call.outputs.values())) for call in golden_calls]
    kept = tuple(call for call, used in zip(golden_calls, accumulate(sizes), strict=True) if used <= _MOST_BYTES)
    if not kept:
        return
    rows = [result.row for result in results if result.probe.as_sampled]
    limit = limit_of(
        Precision(check.precision), [row["tolerance"]["sqnr_db"] for row in rows], [row["sqnr_db"] for row in rows]
    )
    (out / GOLDEN).write_text(golden_text(GoldenSamples(kept, limit), signature))
    try:
        check_version(session, out)
    except TransloadError:
        (out / GOLDEN).unlink()


def golden_text(golden: GoldenSamples, signature: Signature) -> str:
    """Return the text of an artifact's golden.json."""
    return json.dumps(golden_document(golden, signature, signature, dialect=Dialect.V2, url="", path="")) + "\n"


def limit_of(
    precision: Precision, tolerances_db: Sequence[float | None], agreements_db: Sequence[float | None]
) -> AnswerLimit:
    """Return how far a copy's answers may lie from its model's: as they were allowed to, or as they did."""
    limits = [tolerance for tolerance in tolerances_db if tolerance is not None]
    measured = [agreement - _MARGIN_DB for agreement in agreements_db if agreement is not None]
    least_db = min(LEAST_SQNR_DB[precision], *limits, *measured, float("inf"))
    return AnswerLimit(least_db, 0.0 if precision is Precision.FP32 else MOST_MISMATCHES)


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
