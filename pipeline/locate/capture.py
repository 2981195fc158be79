"""Ask a candidate the reference's probes, and capture every value of the first call at which it departs.

capture    inputs {artifact, data, reference}   -> graph.json, names.json, values.npz, feeds.npz, answers.npz
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...converters.minimal_repro.graph_pieces import GraphCutter
from ...converters.minimal_repro.open_cutter import open_cutter
from ...models.artifact import Artifact, read_artifact
from ...models.dataset import Dataset
from ...models.errors import TransloadError
from ...models.formats import Precision
from ...models.job import Job
from ...models.probes.evidence import Answers
from ...models.probes.feeds import CallRows, make_feeds
from ...models.probes.probe_set import describe_values
from ...models.signature import Array
from ...serving.session import Session
from ..drift.answer_shards import RecordedSeries
from ..drift.mismatch_hints import structure
from ..drift.noise_floor import Cause, OutputNoise, derive_limits
from ..drift.numeric import Drift, combine, compare
from ..drift.recorded_answers import ANSWERS, PROBES, ReferenceRecord, read_calls, read_record
from ..drift.rules import FAIL, Rule, judge
from ..drift.sessions import default_runtime, open_session, read_test_set
from .locate_records import CandidateGraph, CandidateOperator, Capture, CaptureFacts, CaptureOptions


@dataclass(frozen=True)
class _ProbedCall:
    """A call of the reference: its feeds, its answers, and the rule that answers to it are held to."""

    name: str
    feeds: Mapping[str, Array]
    expected: Answers
    rule: Rule


@dataclass(frozen=True)
class _Reply:
    """What the candidate said to a call, and how that is judged."""

    call: _ProbedCall
    answers: Answers
    error: str = ""

    @cached_property
    def _drift(self) -> Drift | None:
        if self.error or structure(self.answers, self.call.expected) is not None:
            return None
        return combine({name: compare(self.answers[name], array) for name, array in self.call.expected.items()})

    @property
    def departs(self) -> bool:
        """Whether the answers fail their rule, as `validate` judges."""
        return self._drift is None or judge(self._drift, self.call.rule).verdict == FAIL

    @property
    def sqnr_db(self) -> float | None:
        """The agreement; None where the answers are equal, or cannot be compared."""
        return None if self._drift is None or self._drift.non_finite else self._drift.sqnr_db

    @property
    def limit_db(self) -> float | None:
        """The least agreement that its rule asks of an output."""
        return min((self.call.rule.limit_db(name) for name in self.call.expected), default=None)


def capture(job: Job) -> Mapping[str, Any]:
    """Find a call at which a candidate's answers depart from the reference's, and keep every value of it.

    CaptureOptions -> CaptureFacts. The first such call counts; the smallest batches are asked first.
    """
    options = CaptureOptions.from_json(job.options)
    folder = job.inputs["artifact"]
    artifact = read_artifact(folder)
    runtime = options.runtime or default_runtime(folder)
    with closing(open_session(runtime, folder, threads=options.threads)) as session:
        count, reply = _find_departure(job, session, str(artifact.target.precision))
    if reply is None or not reply.departs:
        return CaptureFacts(calls=count, agreement_db=reply.sqnr_db if reply else None, departs=False).to_json()
    facts = CaptureFacts(
        calls=count, agreement_db=reply.sqnr_db, departs=True, call=reply.call.name, error=reply.error,
        limit_db=reply.limit_db,
    )  # fmt: skip
    if reply.error:
        return facts.to_json()
    cutter = open_cutter(artifact)
    cutter.record(reply.call.feeds)
    graph = _graph_of(cutter, artifact)
    captured = {name: cutter.values[value] for name, value in graph.outputs.items() if value in cutter.values}
    Capture(graph, cutter.values, reply.call.feeds, reply.answers).write(job.out)
    vanishes = len(captured) == len(graph.outputs) and not _Reply(reply.call, captured).departs
    return replace(facts, operators=len(graph.operators), vanishes=vanishes).to_json()


def _find_departure(job: Job, session: Session, precision: str) -> tuple[int, _Reply | None]:
    """Return how many calls were made, and the reply that departs; else the worst, or that without an answer."""
    worst: _Reply | None = None
    count = 0
    for call in _calls(job, precision):
        count += 1
        try:
            reply = _Reply(call, session.run(call.feeds))
        except TransloadError as error:
            reply = _Reply(call, {}, error.what)
        if worst is None or _badness(reply) > _badness(worst):
            worst = reply
        if reply.departs and not reply.error:
            return count, reply
    return count, worst


def _badness(reply: _Reply) -> tuple[bool, float]:
    return reply.departs, -np.inf if reply.sqnr_db is None else -reply.sqnr_db


def _calls(job: Job, precision: str) -> Iterator[_ProbedCall]:
    """Yield the calls of the probes, the smallest first, then those of the whole test set, sample by sample."""
    reference = job.inputs["reference"]
    record = read_record(reference)
    data = read_test_set(job, record.signature.inputs)
    probes = [*zip(record.probes, read_calls(reference / PROBES), strict=True)]
    for probe, series in sorted(probes, key=lambda pair: (not pair[0].as_sampled, bool(pair[0].sizes), pair[0].batch)):
        if probe.is_empty or probe.is_blank:
            continue
        rule = _rule(precision, record.noise_of(probe))
        changed = probe.of(data)
        sizes = ", ".join(f"{axis}={size}" for axis, size in probe.sizes.items())
        values = describe_values(probe, record.signature.inputs)
        name = " ".join(filter(None, (f"batch {probe.batch}", f"with {sizes}" if sizes else "", values)))
        for rows, expected in zip(probe.rows(changed), series, strict=False):
            yield _ProbedCall(name, make_feeds(changed, rows, record.signature, probe.sizes), expected, rule)
    if record.chunk is not None and (reference / ANSWERS).is_dir():
        rule = _rule(precision, record.noise)
        yield from _single_samples(record, data, RecordedSeries(reference / ANSWERS), rule)


def _rule(precision: str, noise: Mapping[Cause, OutputNoise]) -> Rule:
    rule = Rule.of(precision)
    return replace(rule, limits=derive_limits(noise)) if rule.precision is Precision.FP32 else rule


def _single_samples(
    record: ReferenceRecord, data: Dataset, series: Sequence[Answers], rule: Rule
) -> Iterator[_ProbedCall]:
    """Yield the samples of the whole test set one by one, where each output has one row per sample."""
    for rows, expected in zip(CallRows(len(data), record.chunk or 1, record.batches), series, strict=False):
        if record.batches.low > 1 or any(len(array) != len(rows) for array in expected.values() if array.ndim):
            yield _ProbedCall("the test set", make_feeds(data, rows, record.signature), expected, rule)
            continue
        for at, row in enumerate(rows):
            feeds = make_feeds(data, np.array([row]), record.signature)
            yield _ProbedCall(
                f"sample {row}", feeds, {name: array[at : at + 1] for name, array in expected.items()}, rule
            )


def _graph_of(cutter: GraphCutter, artifact: Artifact) -> CandidateGraph:
    operators = []
    for at, (reads, writes) in enumerate(zip(cutter.reads, cutter.writes, strict=True)):
        kind, name = cutter.operators[at]
        operators.append(CandidateOperator(kind, name, tuple(reads), tuple(writes), cutter.describe(at)[2] or ""))
    names = [spec.name for spec in artifact.signature.outputs]
    return CandidateGraph(tuple(operators), cutter.output_values(names))
