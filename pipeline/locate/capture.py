"""Ask a candidate the reference's probes, and capture every value of the call at which it departs most clearly.

capture    inputs {artifact, data, reference}   -> the files of a Capture
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ...models.artifact import Artifact, read_artifact
from ...models.errors import TransloadError
from ...models.job import Job
from ...models.probes.evidence import Answers
from ...models.signature import Array, Signature
from ...serving.session import Session
from ..drift.drift_records import CheckOptions
from ..drift.numbers.column_ranges import describe_uneven_columns
from ..drift.rules import FAIL
from ..drift.sessions import open_session, read_test_set
from .diverging_call import DivergenceSearch
from .locate_records import CandidateGraph, CandidateOperator, Capture, CaptureFacts
from .runtime_changes import find_cure
from .value_recorder import ValueRecorder, open_recorder


def capture(job: Job) -> Mapping[str, Any]:
    """Find a call at which a candidate's answers depart from the reference's, and keep every value of it.

    CheckOptions -> CaptureFacts.
    """
    options = CheckOptions.from_json(job.options)
    folder = job.inputs["artifact"]
    artifact = read_artifact(folder)
    search = DivergenceSearch(job)
    precision, inputs = artifact.target.precision, artifact.signature.inputs
    columns = partial(describe_uneven_columns, precision, data=read_test_set(job, inputs), inputs=inputs)
    with closing(open_session(search.check.runtime, folder, threads=options.threads)) as session:
        diverging = search.find(session)
        if diverging is None:
            return CaptureFacts(
                calls=search.calls, agreement_db=search.least_db, departs=False, columns=columns(search.least_db)
            ).to_json()
        feeds = search.feeds(diverging.calls)
        answers, error = _answer(session, feeds)
    facts = CaptureFacts(
        calls=search.calls, agreement_db=diverging.agreement_db, departs=True, call=diverging.name, error=error,
        mismatch=diverging.result.judgement.reason or "" if diverging.result.row.get("mismatch") else "",
        cure=find_cure(search, diverging, folder, options.threads),
        limits_db=search.limits_db(diverging.calls.probe, str(precision)), columns=columns(diverging.agreement_db),
    )  # fmt: skip
    recorder = open_recorder(artifact)
    graph = _record(recorder, artifact, feeds, error)
    if graph is None:
        return facts.to_json()
    captured = {name: recorder.values[value] for name, value in graph.outputs.items() if value in recorder.values}
    Capture(graph, recorder.values, feeds, answers, recorder.constants).write(job.out)
    recorded = _RecordedAnswers(artifact.signature, captured)
    vanishes = len(captured) == len(graph.outputs) and search.check.run(recorded, diverging.calls).verdict != FAIL
    return replace(facts, operators=len(graph.operators), vanishes=vanishes).to_json()


@dataclass(frozen=True)
class _RecordedAnswers:
    """A session that gives the answers of a run with all values kept."""

    signature: Signature
    answers: Answers
    device: str = "cpu"

    def run(self, feeds: Mapping[str, Array]) -> Answers:  # noqa: ARG002  (those of the recorded call)
        """Return the recorded answers."""
        return self.answers

    def close(self) -> None:
        """Hold nothing."""


def _answer(session: Session, feeds: Mapping[str, Array]) -> tuple[Answers, str]:
    """Return the answers, or why there are none."""
    try:
        return session.run(feeds), ""
    except TransloadError as error:
        return {}, error.what


def _record(
    recorder: ValueRecorder, artifact: Artifact, feeds: Mapping[str, Array], error: str
) -> CandidateGraph | None:
    """Record every value of a call; of one without an answer those before the operator that fails.
    None where no operator of that can be named."""
    failing = None
    if error:
        failing = recorder.record_until_failure(feeds)
        if failing is None:
            return None
    else:
        recorder.record(feeds)
    operators = []
    for at, (reads, writes) in enumerate(zip(recorder.reads, recorder.writes, strict=True)):
        kind, name = recorder.operators[at]
        operators.append(CandidateOperator(kind, name, tuple(reads), tuple(writes), recorder.describe(at)[2] or ""))
    names = [spec.name for spec in artifact.signature.outputs]
    return CandidateGraph(tuple(operators), recorder.output_values(names), failing)
