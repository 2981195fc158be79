"""Check one artifact in one runtime against the recorded reference: ask it the same probes, compare, judge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from ...models.artifact import read_artifact
from ...models.dataset import Dataset
from ...models.errors import BadRequest, TransloadError, WrongOutputs
from ...models.formats import Precision
from ...models.job import Job
from ...models.probes.evidence import Answers, Series, is_level
from ...models.probes.feeds import CallRows, make_feeds, sizes_in
from ...models.probes.probe_set import FIRST_BITS, WORD_BITS, Probe, suggest_fix
from ...models.probes.sizes import batches_within, fixed_batch, times_elements
from ...models.probes.stress_values import SAMPLED
from ...models.signature import ANY_SIZE, Array, Bounds
from ...serving.session import Session
from .agreement import Agreement
from .answer_shards import RecordedSeries, RegroupedSeries
from .drift_records import CheckOptions
from .integer_probes import Call, lower_floor_db, name_culprits, name_suspects
from .metrics.chosen_metric import metric_of
from .metrics.metric_tally import MetricTally
from .metrics.task_metric import TaskMetric
from .mismatch_hints import describe_order, explain, structure
from .noise_floor import Cause, derive_limits
from .numbers.column_drift import column_axes
from .numbers.numeric import Drift, combine
from .probe_result import CheckResult, ProbeCalls, describe_calls
from .probe_tally import ProbeTally
from .recorded_answers import ANSWERS, PROBES, has_rows, read_calls, read_record, read_sources, split_by_sample
from .rounding_ties import TIES, TIES_SET, Marks, settle
from .rules import BLANK_DB, FAIL, INCONCLUSIVE, PASS, Judgement, Rule, judge, judge_silence
from .sessions import batches_of, default_runtime, read_test_set
from .stress_drift import (
    describe_place,
    describe_replaced,
    drifts_to_judge,
    is_finite_answer,
    settle_moved,
    settle_undefined,
)

_ROWS = 1024  # of samples that are looked at together
_MANY = 200  # integers: half of them of any size, from 2 to 62 bits
_OWN_SAMPLES = "where such integers never come, give samples of yours: --data FILE.npz"
_REFERENCE_FIX = "make the reference again of the same data"


class Check:
    """One artifact in one runtime against the recorded reference.
    `may_fix_batch`: a user's copy; of a fixed batch it is asked that batch alone, and its outputs are known by name.
    Else it owes every batch of the model, and the order of its outputs."""

    def __init__(self, job: Job, *, may_fix_batch: bool = False) -> None:
        self._may_reorder = may_fix_batch
        self.options = options = CheckOptions.from_json(job.options)
        self.runtime = options.runtime or default_runtime(job.inputs["artifact"])
        self.record = read_record(job.inputs["reference"])
        copy = options.signature or read_artifact(job.inputs["artifact"]).signature
        self._signature = self.record.signature
        self._bounds = copy.bounds  # a copy may be good for fewer sizes than the model
        if may_fix_batch:
            self._bounds |= fixed_batch(copy.inputs, self._signature.inputs)
        self._batched = self._signature.batch is not None
        self._axes = column_axes(self._signature)
        self._data = read_test_set(job, self._signature.inputs)
        self._sizes = sizes_in(self._data, self._signature)
        self._reference = job.inputs["reference"]
        batches = batches_within(self._signature.inputs, batches_of(options))
        self._batches = [batch for batch in batches if batch in self._copy_bounds(self._signature.batch)]
        if not (self._batches or may_fix_batch):
            self._batches = [*batches]
        self.precision = options.precision or str(read_artifact(job.inputs["artifact"]).target.precision)
        self._loses_nan = self._batched and not options.require_non_finite and self.precision.startswith("int8")
        self._floor_db = options.tolerance_sqnr_db
        self._allowed_loss = options.allowed_loss
        self._metric = metric_of(options) if self._data.labels is not None else None

    @property
    def agreement(self) -> Agreement:
        """What can be said of a copy that is right."""
        return Agreement(self.record, self._bounds, self._sizes)

    @property
    def note(self) -> str | None:
        """What a reader must know of a pass that no metric has judged."""
        rule = Rule.of(self.precision, self._floor_db, self._allowed_loss)
        if rule.precision == "fp32" or (rule.by_metric and self._metric is not None):
            return None
        lacking = "no metric judges" if self._metric is None else "without --allowed-loss no metric judges"
        return f"{lacking} {rule.precision}: {rule.sqnr_db:g} dB is a floor that only something broken misses"

    @property
    def _is_metric_requested(self) -> bool:
        return self.options.metric is not None and self.options.metric.requested

    def whole_set(self) -> ProbeCalls:
        """Return all test samples, in the reference's calls, or in others where the copy does not take those.
        Raises BadRequest where it does not take them, and answers have no row for each sample."""
        chunk = self.record.chunk
        if chunk is None:
            raise BadRequest("the reference was not asked the whole test set", fix="record it without probes_only")
        answers = RecordedSeries(self._reference / ANSWERS)
        recorded = CallRows(len(self._data), chunk, self.record.batches)
        if len(recorded) != len(answers):
            raise BadRequest("the reference was recorded on other data", fix=_REFERENCE_FIX)
        path = self._reference / TIES_SET
        marks = RecordedSeries(path) if path.is_dir() else ()
        bounds = self._bounds.get(self._signature.batch or "", self.record.batches)
        rows = CallRows(len(self._data), bounds.filled.at_most(chunk), bounds)
        if (rows.batch, len(rows[-1])) == (chunk, len(recorded[-1])):
            return replace(self._calls_of(Probe(chunk), recorded, answers, self._metric), tie_marks=marks)
        if not has_rows(answers[0], len(recorded[0])):
            sizes = bounds if bounds.low != bounds.high else bounds.low
            raise BadRequest(
                f"the copy takes calls of {sizes} samples, and the model's answers to {chunk} have no row for each",
                fix="give a test set that the copy takes in one call: --data FILE.npz",
            )
        calls = self._calls_of(Probe(rows.batch), rows, RegroupedSeries(answers, chunk, rows), self._metric)
        return replace(calls, tie_marks=RegroupedSeries(marks, chunk, rows) if marks else ())

    def probes(self) -> list[ProbeCalls]:
        """Return the probes that this copy is asked.
        First come the batches, then the sizes that the reference has answered at and that the copy says it is for, then
        values that the samples do not hold."""
        keys = [probe.key for probe in self.record.probes]
        series = dict(zip(keys, read_calls(self._reference / PROBES), strict=True))
        marks = dict(zip(keys, self._tie_marks(len(keys)), strict=True))
        wanted = [*map(Probe, self._batches), *(probe for probe in self.record.probes if self._is_asked(probe))]
        missing = [probe.batch for probe in wanted if probe.key not in series]
        if missing:
            raise BadRequest(f"the reference was not recorded at batch {missing[0]}", fix="record it at that batch")
        calls = (self._probe_calls(probe, series[probe.key]) for probe in wanted)
        return [replace(probe_calls, tie_marks=marks[probe_calls.probe.key]) for probe_calls in calls]

    def _tie_marks(self, count: int) -> Sequence[Sequence[Marks]]:
        """Return what rounding decides in the calls of `count` probes; nothing where the reference does not tell."""
        path = self._reference / TIES
        return read_calls(path) if path.is_file() else [()] * count

    def _probe_calls(self, probe: Probe, answers: Series) -> ProbeCalls:
        data = probe.of(self._sources[probe.source])
        rows = list(probe.rows(data, len(answers) * probe.batch))
        return replace(self._calls_of(probe, rows, answers), data=data)

    def _is_asked(self, probe: Probe) -> bool:
        """Return whether the copy owes the probe: a reduced precision is right within the range of its calibration."""
        sizes = {self._signature.batch or "": probe.batch, **probe.sizes}
        fits = all(size in self._copy_bounds(axis) for axis, size in sizes.items())
        if not probe.as_sampled:
            is_owed = self.precision == Precision.FP32 or not (probe.reach or probe.is_stress or probe.is_near)
            is_calibrated = self.precision.startswith("int8") and probe.source
            own_batch = probe.batch in self._batches and not probe.sizes
            return is_owed and not is_calibrated and (fits or own_batch)
        return fits and probe not in map(Probe, self._batches)

    def _copy_bounds(self, axis: str | None) -> Bounds:
        """Return the sizes of an axis that the copy says it is for."""
        return self._bounds.get(axis or "", ANY_SIZE)

    def _calls_of(
        self, probe: Probe, rows: Sequence[Array], answers: Series, metric: TaskMetric | None = None
    ) -> ProbeCalls:
        where = describe_calls(probe, self._batches if self._batched else None, self._sizes, self._signature.inputs)
        return ProbeCalls(probe, where, self._data, rows, answers, metric)

    def run_all(self, session: Session, probes: Sequence[ProbeCalls]) -> list[CheckResult]:
        """Run all probes, and leave out integers of middle size where the largest make them needless.
        That is so where the largest, many of every size, hide nothing, and the copy is as right with them as with its
        samples."""
        results: list[CheckResult] = []
        larger = [calls for calls in probes if calls.probe.bits > FIRST_BITS]
        for calls in probes[: len(probes) - len(larger)]:
            results.append(self.run(session, calls, results))
        if len(larger) > 1 and larger[-1].integers >= _MANY and is_level(probes[0].answers, larger[-1].answers):
            widest = self._ask(session, larger[-1])
            if widest.verdict == PASS:
                return [*results, widest]
        for calls in larger:
            results.append(self.run(session, calls, results))
        return results

    def repeat(self, session: Session, calls: ProbeCalls, when: str) -> CheckResult | None:
        """Ask the first call of a probe that passed once more; return the result of a copy that answers otherwise now.
        `when`: how its sentence begins."""
        rows, answers, marks = calls.rows[:1], calls.answers[:1], calls.tie_marks[:1]
        first = replace(calls, rows=rows, answers=answers, tie_marks=marks, metric=None, errors=None)
        result = self._ask(session, first)
        if result.verdict != FAIL and result.answered:
            return None
        return replace(result, judgement=replace(result.judgement, reason=f"{when}, {result.judgement.reason}"))

    def run(self, session: Session, calls: ProbeCalls, before: Sequence[CheckResult] = ()) -> CheckResult:
        """Ask, compare, judge. The results `before` tell how much larger integers may lose."""
        if calls.probe.reach:
            calls = replace(calls, lowered_db=self._lowered_db(calls, before))
        result = self._ask(session, calls)
        if result.verdict == PASS or (result.verdict == INCONCLUSIVE and result.answered):
            return result
        if calls.probe.is_undefined:
            is_judged = result.row["max_abs"] is not None  # by _judge_undefined
            owes_answer = result.verdict == FAIL and is_finite_answer(calls.answers)  # JSON has no NaN to ask with
            if is_judged or owes_answer or self._requires_non_finite:
                return result
            return self._pass_with_reason(replace(result, row={**result.row, "lost": result.judgement.reason}))
        if calls.probe.bits <= WORD_BITS:
            return result
        return self._pass_with_reason(result)

    def _ask(self, session: Session, calls: ProbeCalls) -> CheckResult:
        reference_calls = (split_by_sample(call, batched=self._batched) for call in calls.answers)
        metric = MetricTally.begin(calls.metric, self._data.labels, reference_calls)
        # A column of few rows near constants is small by chance, as where an activation saturates.
        tally = ProbeTally(self._batched, {} if calls.probe.is_near else self._axes, metric=metric)
        try:
            tie_marks: Iterable[Marks] = calls.tie_marks or repeat({}, len(calls.rows))
            left = len(calls.data)
            for rows, reference, marks in zip(calls.rows, calls.answers, tie_marks, strict=True):
                feeds = make_feeds(calls.data, rows, self._signature, calls.probe.sizes)
                candidate = session.run(feeds)
                if self._may_reorder and (order := describe_order(candidate, reference)):
                    candidate, tally.order = {name: candidate[name] for name in reference}, order
                if differs := structure(candidate, reference):
                    hint = explain(candidate, reference, batched=self._batched)
                    return self.refuse(calls, _sentence(differs, hint), mismatch=differs)
                if self._loses_nan:
                    candidate, lost = settle_undefined(candidate, reference, feeds)
                    tally.lost = tally.lost or lost
                settled, ties = settle(candidate, reference, marks)
                tally.add(settled, reference, len(rows))
                tally.ties += ties
                self._add_samples(calls, tally, rows, left, (reference, candidate, settled))
                left = max(0, left - len(rows))
        except WrongOutputs as error:
            return self.refuse(calls, error.what, mismatch=error.what)
        except TransloadError as error:
            return self.refuse(calls, *judge_silence(error, is_remote=self.options.server == "remote"))
        return self._judge(calls, tally)

    def _add_samples(
        self, calls: ProbeCalls, tally: ProbeTally, rows: Array, left: int, sides: Sequence[Answers]
    ) -> None:
        """Add the answers to one call to the metric and to the histogram of errors.
        A last call that is filled up with earlier samples counts its first `left` rows only, so that none counts twice.
        `sides`: the answers of the reference, of the candidate, and of the candidate with ties settled."""
        if left < len(rows) and has_rows(sides[0], len(rows)):
            rows, sides = rows[:left], [{name: array[:left] for name, array in side.items()} for side in sides]
        reference, candidate, settled = sides
        by_sample = [split_by_sample(side, batched=self._batched) for side in (reference, candidate)]
        tally.metric.add(by_sample, rows)
        if calls.errors is not None:
            calls.errors.add(settled, reference, rows)

    def _judge(self, calls: ProbeCalls, tally: ProbeTally) -> CheckResult:
        if calls.probe.is_undefined:
            return self._judge_undefined(calls, tally)
        usual, steadiness = self._usual if calls.probe.fills else (), self.record.steadiness_of(calls.probe)
        truth = self.record.noise_of(calls.probe).get(Cause.FLOAT64, {})
        limits = self._rule(calls).limits
        drift = combine(drifts_to_judge(calls.probe, tally.drifts, usual, steadiness, truth, limits=limits))
        task, complaint = tally.metric.result(self._allowed_loss)
        metric = task.row if task else None
        judgement = judge(drift, self._rule(calls), metric)
        if calls.probe.is_blank and not drift.non_finite and not self.record.has_truth(calls.probe):
            judgement = replace(judgement, verdict=PASS, reason=None)
        if judgement.verdict == FAIL:
            hint = self._explain_integers(calls, tally) if calls.probe.reach else tally.explain()
            hint = hint or (None if calls.probe.reach else self._name_suspects(calls, tally))
            judgement = replace(judgement, reason=_sentence(judgement.reason or "", hint or judgement.derivation))
        elif not calls.probe.as_sampled or calls.probe.is_empty:  # all may give one answer, or none; the samples vary
            judgement = replace(judgement, verdict=PASS, reason=None)
        elif complaint and judgement.verdict == PASS and (self._rule(calls).by_metric or self._is_metric_requested):
            judgement = replace(judgement, verdict=INCONCLUSIVE, reason=complaint)
        if tally.ties and judgement.verdict == PASS and not (calls.probe.reach or calls.probe.is_stress):
            judgement = replace(judgement, reason=f"{tally.ties} numbers differ where rounding decides them")
        result = replace(self.result(calls, drift, judgement, metric), task=task)
        note = "; ".join(filter(None, (tally.lost, tally.order if judgement.verdict == PASS else None)))
        return replace(result, row={**result.row, "lost": note}) if note else result

    def _judge_undefined(self, calls: ProbeCalls, tally: ProbeTally) -> CheckResult:
        """Hold the copy to the finite part of the model's answers to NaN or infinities; the rest makes a note.
        An integer beside a float that is not finite may be chosen by it: runtimes sort and compare NaN as they like."""
        steadiness, is_finite = self.record.steadiness_of(calls.probe), is_finite_answer(calls.answers)
        floats = {name: noise_db for name, noise_db in steadiness.items() if not tally.drifts[name].exact}
        settled = ProbeTally(batched=True)
        for call in tally.calls:
            copy, model = (split_by_sample(side, batched=self._batched) for side in call)
            settled.add(settle_moved(copy, model), model, 1)
        drift = combine(drifts_to_judge(calls.probe, settled.drifts, self._usual, steadiness, floats, limits={}))
        counted = replace(drift, non_finite=drift.non_finite - drift.undefined, undefined=0)
        judgement = judge(counted if is_finite else replace(counted, mismatches=0), self._rule(calls))
        note = describe_replaced(tally.calls)
        if not is_finite and drift.mismatches:
            note = "; ".join(filter(None, (note, f"{drift.mismatches} integers beside NaN or infinities differ")))
        # Settled samples hold the model's answer: the row counts what the copy itself answers.
        drift = replace(drift, non_finite=sum(output.non_finite for output in tally.drifts.values()))
        place = describe_place(calls.probe, calls.data)
        if judgement.verdict == FAIL:
            reason = f"{judgement.reason}, where the model answers numbers, as to {place}"
            return self.result(calls, drift, replace(judgement, reason=reason), None)
        if note and self._requires_non_finite:
            return self.result(calls, drift, replace(judgement, verdict=FAIL, reason=f"{note}, as to {place}"), None)
        result = self.result(calls, drift, replace(judgement, verdict=PASS, reason=note), None)
        return replace(result, row={**result.row, "lost": result.judgement.reason}) if note else result

    @cached_property
    def _requires_non_finite(self) -> bool:
        """Whether NaN and infinities must be passed on: it is asked for, or samples hold some."""
        floats = [array for array in self._data.inputs.values() if array.dtype.kind == "f"]
        parts = (array[start : start + _ROWS] for array in floats for start in range(0, len(array), _ROWS))
        return self.options.require_non_finite or not all(np.isfinite(part).all() for part in parts)

    @cached_property
    def _sources(self) -> dict[str, Dataset]:
        """The samples, and the rows of each other source."""
        return {"": self._data, **read_sources(self._reference, self.record.probes)}

    @cached_property
    def _usual(self) -> Series:
        """The reference's answers to the first recorded probe."""
        return read_calls(self._reference / PROBES)[0]

    def _pass_with_reason(self, result: CheckResult) -> CheckResult:
        """Turn a fail beyond 32 bits, or no answer to NaN, into a pass that tells the difference."""
        return replace(result, row={**result.row, "verdict": PASS}, judgement=replace(result.judgement, verdict=PASS))

    def _explain_integers(self, calls: ProbeCalls, tally: ProbeTally) -> str | None:
        return name_culprits(self._compared(calls, tally), tuple(calls.probe.reach), batched=self._batched)

    def _name_suspects(self, calls: ProbeCalls, tally: ProbeTally) -> str | None:
        """Name the integers of random samples that get wrong answers only, with a fix."""
        suspects = name_suspects(self._compared(calls, tally), tuple(self.record.reach), batched=self._batched)
        return f"{suspects}; {_OWN_SAMPLES}" if suspects else None

    def _compared(self, calls: ProbeCalls, tally: ProbeTally) -> list[Call]:
        feeds = [make_feeds(calls.data, rows, self._signature, calls.probe.sizes) for rows in calls.rows]
        return [(fed, *answers) for fed, answers in zip(feeds, tally.calls, strict=False)]  # a tally keeps the first

    def _lowered_db(self, calls: ProbeCalls, before: Sequence[CheckResult]) -> float:
        """Return the floor where integers are larger than in the probe before."""
        floor_db = Rule.of(self.precision, self._floor_db).sqnr_db
        alike = [result for result in before if result.probe.batch == calls.probe.batch]
        last = [result for result in alike if not result.probe.sizes and not result.probe.fills]
        if not last:
            return floor_db
        more = calls.probe.bits - max(last[-1].probe.bits, SAMPLED.bits)
        return lower_floor_db(floor_db, last[-1].row["sqnr_db"], more)

    def refuse(self, calls: ProbeCalls, reason: str, verdict: str = FAIL, mismatch: str | None = None) -> CheckResult:
        """Judge a probe that gave no numbers: no answer, or a `mismatch` of names, shapes or dtypes."""
        result = self.result(calls, None, Judgement(verdict, reason, self._rule(calls).tolerance_of(None)), None)
        return replace(result, row={**result.row, "mismatch": mismatch})

    def _rule(self, calls: ProbeCalls) -> Rule:
        """Return the rule: the metric judges the whole set only, as the interval of 20 samples spans every limit."""
        floor_db = self._floor_db if calls.lowered_db is None else calls.lowered_db
        rule = Rule.of(self.precision, floor_db, self._allowed_loss if calls.metric is not None else None)
        if self._floor_db is not None:
            return rule
        limits = derive_limits(self.record.noise_of(calls.probe))  # a norm of blank rows is all rounding: see rules
        lowered_db = BLANK_DB if calls.probe.is_blank else math.inf if calls.lowered_db is None else calls.lowered_db
        times = times_elements(self._signature.inputs, self._sizes, calls.probe.sizes)
        limits = {name: limit.for_inputs(times).at_most(lowered_db) for name, limit in limits.items()}
        return replace(rule, limits=limits)

    def result(
        self, calls: ProbeCalls, drift: Drift | None, judged: Judgement, metric: Mapping[str, Any] | None
    ) -> CheckResult:
        """Put a judged comparison into a row."""
        reason = f"{calls.where}: {judged.reason}" if judged.reason and calls.where else judged.reason
        if judged.verdict == FAIL and (fix := suggest_fix(calls.probe)):
            reason = f"{reason}; {fix}"
        row = {
            "runtime": self.runtime,
            "batch": calls.probe.batch,
            "samples": calls.samples,
            "max_abs": drift and drift.max_abs,
            "rms": drift and drift.rms,
            "cosine": drift and drift.cosine,
            "sqnr_db": drift and (drift.sqnr_db if judged.sqnr_db is None else judged.sqnr_db),
            "non_finite": drift and drift.non_finite,
            "tolerance": dict(judged.tolerance),
            "derivation": judged.derivation,
            "verdict": judged.verdict,
            "metric": metric,
        }
        return CheckResult(calls.probe, row, replace(judged, reason=reason))


def _sentence(statement: str, hint: str | None) -> str:
    return f"{statement}; {hint}" if hint else statement
