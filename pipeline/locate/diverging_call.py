"""Find the call of a candidate that departs most clearly from the recorded reference, by the rules of `validate`."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from ...models.job import Job
from ...models.probes.feeds import make_feeds
from ...models.probes.probe_set import Probe, describe_values
from ...models.signature import Array
from ...serving.session import Session
from ..drift.check import Check
from ..drift.noise_floor import derive_limits
from ..drift.probe_result import CheckResult, ProbeCalls
from ..drift.recorded_answers import ANSWERS
from ..drift.rules import FAIL, Rule

_CLEAR_DB = 20.0  # below the limit: no other call needs to show it better
_SEARCH_S = 20.0  # for a clearer call, once one departs
_MOST_CALLS = 12  # of a probe that fails, from which the clearest is taken


@dataclass(frozen=True)
class DivergingCall:
    """A single call of the reference's, and what the candidate's answer to it is worth."""

    calls: ProbeCalls
    result: CheckResult
    name: str  # "batch 2 with time=7"

    @property
    def agreement_db(self) -> float | None:
        """The agreement; None where the answers cannot be compared, or other elements are finite."""
        row = self.result.row
        db = row["sqnr_db"]
        return None if db is None or row["non_finite"] else float(db)

    @property
    def margin_db(self) -> float:
        """How far the agreement lies below its limit; negative without an answer, which shows no values."""
        if not self.result.answered:
            return -1.0
        limit = self.result.judgement.tolerance["sqnr_db"]
        return math.inf if self.agreement_db is None or limit is None else max(0.0, limit - self.agreement_db)


class DivergenceSearch:
    """The search among the calls that `validate` asks: the smallest first, the values that no sample holds later."""

    def __init__(self, job: Job) -> None:
        self.check = Check(job)
        self.results: list[CheckResult] = []
        self.calls = 0
        self._signature = self.check.record.signature
        self._has_test_set = self.check.record.chunk is not None and (job.inputs["reference"] / ANSWERS).is_dir()

    def find(self, session: Session) -> DivergingCall | None:
        """Return the call that departs most clearly; None where all agree. A wrong answer goes before none at all."""
        best: DivergingCall | None = None
        deadline = math.inf
        for calls in self._in_order():
            result = self.check.run(session, calls, self.results)
            self.results.append(result)
            self.calls += len(calls.rows)
            if result.verdict == FAIL:
                diverging = self._clearest(session, calls, result)
                best = diverging if best is None or diverging.margin_db > best.margin_db else best
                deadline = min(deadline, time.monotonic() + _SEARCH_S)
            if best is not None and (best.margin_db >= _CLEAR_DB or time.monotonic() > deadline):
                break
        return best

    def ask_again(self, session: Session, diverging: DivergingCall) -> DivergingCall:
        """Run a diverging call in another session, and compare its answers with the reference anew."""
        return replace(diverging, result=self.check.run(session, diverging.calls, self.results))

    @property
    def least_db(self) -> float | None:
        """The worst agreement of all calls; None where they agree exactly."""
        noises = [result.row["sqnr_db"] for result in self.results if result.probe.as_sampled]
        return min((noise for noise in noises if noise is not None), default=None)

    def feeds(self, calls: ProbeCalls) -> Mapping[str, Array]:
        """Return the feeds of the first of some calls."""
        return make_feeds(calls.data, calls.rows[0], self._signature, calls.probe.sizes)

    def limits_db(self, probe: Probe, precision: str) -> dict[str, float]:
        """Return the least agreement of each output that has a limit of its own, else of all."""
        limits = derive_limits(self.check.record.noise_of(probe)) if precision == "fp32" else {}
        rule = replace(Rule.of(precision), limits=limits)
        return {spec.name: rule.limit_db(spec.name) for spec in self._signature.outputs}

    def _in_order(self) -> Iterator[ProbeCalls]:
        """Yield the calls of each probe, then those of the test set. One sample is asked after two: it shows less."""

        def rank(calls: ProbeCalls) -> tuple[bool, bool, bool, bool, int]:
            probe = calls.probe
            return probe.is_empty, not probe.as_sampled, bool(probe.sizes), probe.batch == 1, probe.batch

        yield from sorted(self.check.probes(), key=rank)
        if self._has_test_set:
            yield self.check.whole_set()

    def _clearest(self, session: Session, calls: ProbeCalls, result: CheckResult) -> DivergingCall:
        """Return the clearest of the single calls that fail; the first where only all together do."""
        singles = (self._single(calls, at) for at in range(len(calls.rows)))
        first = DivergingCall(self._single(calls, 0), result, self._name_call(calls))
        if not result.answered:
            failing = (single for single in singles if not self.check.run(session, single, self.results).answered)
            return replace(first, calls=next(failing, first.calls))
        best: DivergingCall | None = None
        for single in islice(singles, _MOST_CALLS):
            single_result = self.check.run(session, single, self.results)
            if single_result.verdict != FAIL:
                continue
            diverging = self._first_sample(session, single) or replace(first, calls=single, result=single_result)
            if best is None or diverging.margin_db > best.margin_db:
                best = diverging
            if best.margin_db >= _CLEAR_DB:
                break
        return best or first

    def _first_sample(self, session: Session, calls: ProbeCalls) -> DivergingCall | None:
        """Return the first sample of a call of the test set that fails alone, where outputs have a row per sample."""
        rows, (answers,) = calls.rows[0], calls.answers
        is_of_test_set = calls.probe == Probe(self.check.record.chunk or 0)
        if not is_of_test_set or self.check.record.batches.low > 1 or not _has_rows(answers.values(), len(rows)):
            return None
        for at, row in enumerate(rows):
            marks = [{name: array[at : at + 1] for name, array in tie_marks.items()} for tie_marks in calls.tie_marks]
            sample = replace(
                calls, probe=Probe(1), rows=[np.array([row])], tie_marks=marks,
                answers=[{name: array[at : at + 1] for name, array in answers.items()}],
            )  # fmt: skip
            result = self.check.run(session, sample, self.results)
            if result.verdict == FAIL:
                return DivergingCall(sample, result, f"sample {row}")
        return None

    def _single(self, calls: ProbeCalls, at: int) -> ProbeCalls:
        call = slice(at, at + 1)
        return replace(
            calls, rows=calls.rows[call], answers=calls.answers[call], tie_marks=calls.tie_marks[call], metric=None
        )

    def _name_call(self, calls: ProbeCalls) -> str:
        probe = calls.probe
        sizes = ", ".join(f"{axis}={size}" for axis, size in probe.sizes.items())
        values = describe_values(probe, self._signature.inputs)
        return " ".join(filter(None, (f"batch {probe.batch}", f"with {sizes}" if sizes else "", values)))


def _has_rows(arrays: Iterable[Array], count: int) -> bool:
    return all(array.ndim and len(array) == count for array in arrays)
