"""One artifact in one runtime against the recorded reference: asked the same, compared, judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import numpy as np

from ...models.artifact import read_artifact
from ...models.dataset import Dataset
from ...models.errors import BadRequest, TransloadError
from ...models.formats import Precision
from ...models.job import Job
from ...models.probes.feeds import feeds_of, sizes_in, whole
from ...models.probes.sizes import batches_within
from ...models.probes.stress_values import SAMPLED
from ...models.recipe import Metric
from ...models.signature import ANY_SIZE, Array, Bounds
from ...models.sources import CodeRef
from ...serving.session import Session
from .integer_probes import WORD_BITS, Call, culprits, eased_db, reach_told, suspects
from .mask_probes import mend_told, values_told
from .metric import metric_row
from .mismatch_hints import explain, join, structure
from .numeric import Drift, OutputDrift, combine, compare
from .probe_evidence import is_level
from .recorded_answers import (
    ANSWERS,
    FIRST_BITS,
    PROBE_SAMPLES,
    PROBES,
    Answers,
    Probe,
    Series,
    by_sample,
    read_calls,
    read_record,
)
from .rules import FAIL, INCONCLUSIVE, PASS, Judgement, Rule, judge
from .sessions import batches_of, read_test_set

_MANY = 200  # integers: half of them of any size, from 2 to 62 bits
_ROUNDED_DB = 45.0  # that rounding at every operator takes from an answer, where inputs are rounded once
_OWN_SAMPLES = "where such integers never come, give samples of yours: --data FILE.npz"
_REFERENCE_FIX = "make the reference again of the same data"


@dataclass(frozen=True)
class Part:
    """Calls of one kind, and what the reference answered to each. `where`: how a sentence begins that speaks of them.
    `data`: what `rows` are of. `metric`: the task's metric is taken. `eased_db`: less than the usual floor is asked."""

    probe: Probe
    where: str
    data: Dataset
    rows: Sequence[Array]
    answers: Series
    metric: Metric | None = None
    eased_db: float | None = None

    @property
    def samples(self) -> int:
        """How many different ones they see."""
        return len(np.unique(np.concatenate(self.rows)))

    @property
    def integers(self) -> int:
        """How many of the probe's an input holds at least, in all of these calls."""
        return self.samples * min(int(self.data.inputs[name][0].size) for name in self.probe.reach)


@dataclass(frozen=True)
class Found:
    """What came of one part: a result.DriftRow without `artifact`, and the verdict with its sentence."""

    probe: Probe
    row: Mapping[str, Any]
    judgement: Judgement

    @property
    def verdict(self) -> str:
        """pass, fail or inconclusive."""
        return self.judgement.verdict


@dataclass
class _Tally:
    """What the calls of a part add up to. `batched`: answers have samples along axis 0."""

    batched: bool
    drifts: dict[str, OutputDrift] = field(default_factory=dict)
    scores: list[Array] = field(default_factory=list)
    reference_scores: list[Array] = field(default_factory=list)
    calls: list[tuple[Answers, Answers]] = field(default_factory=list)  # candidate and reference: some of the first
    kept: int = 0  # samples in `calls`

    def add(self, got: Answers, want: Answers, samples: int) -> None:
        if self.kept < PROBE_SAMPLES:
            self.calls.append((got, want))
            self.kept += samples
        got, want = (by_sample(each, batched=self.batched) for each in (got, want))
        for name, array in want.items():
            self.drifts[name] = self.drifts.get(name, OutputDrift()).merge(compare(got[name], array))

    def looks(self) -> str | None:
        """What the wrong answers look like: of one call, else of several (one sample alone tells little)."""
        got, want = zip(*self.calls, strict=True)
        of_one = explain(got[0], want[0], batched=self.batched)
        return of_one or explain(
            *(join([by_sample(call, batched=self.batched) for call in side]) for side in (got, want))
        )


class Check:
    """One artifact in one runtime against the recorded reference."""

    def __init__(self, job: Job, runtime: str) -> None:
        options = job.options
        self.runtime = runtime
        self.record = read_record(job.inputs["reference"])
        artifact = read_artifact(job.inputs["artifact"])
        self._signature = self.record.signature
        self._bounds = artifact.signature.bounds  # a copy may be good for fewer sizes than the model
        self._batched = self._signature.batch is not None
        self._data = read_test_set(job, self._signature.inputs)
        self._sizes = sizes_in(self._data, self._signature)
        self._reference = job.inputs["reference"]
        asked = batches_within(self._signature.inputs, batches_of(job))
        self._batches = [batch for batch in asked if batch in self._own(self._signature.batch)] or asked
        self._precision = options.get("precision") or str(artifact.target.precision)
        self._floor_db = options.get("tolerance_sqnr_db")
        self._allowed_loss = options.get("allowed_loss")
        self._metric = _metric_of(options) if self._data.labels is not None else None

    @property
    def note(self) -> str | None:
        """What a reader must know of a pass that no metric has judged."""
        rule = Rule.of(self._precision, self._floor_db, self._allowed_loss)
        if rule.precision == "fp32" or (rule.by_metric and self._metric is not None):
            return None
        return f"no metric judges {rule.precision}: {rule.sqnr_db:g} dB is a floor that only something broken misses"

    def whole_set(self) -> Part:
        """All test samples, in the chunks that the reference was asked in."""
        chunk = self.record.chunk
        if chunk is None:
            raise BadRequest("the reference was not asked the whole test set", fix="record it without probes_only")
        (answers,) = read_calls(self._reference / ANSWERS)
        rows = list(whole(len(self._data), chunk, self.record.least))
        if len(rows) != len(answers):
            raise BadRequest("the reference was recorded on other data", fix=_REFERENCE_FIX)
        return self._part(Probe(chunk), rows, answers, self._metric)

    def probes(self) -> list[Part]:
        """The first samples at each probe batch size, then with each other axis at the sizes that the reference has
        answered at and that the copy says it is for, then with other integers than the samples hold."""
        keys = [probe.key for probe in self.record.probes]
        series = dict(zip(keys, read_calls(self._reference / PROBES), strict=True))
        wanted = [Probe(batch) for batch in self._batches] + [
            probe for probe in self.record.probes if self._is_asked(probe)
        ]
        missing = [probe.batch for probe in wanted if probe.key not in series]
        if missing:
            raise BadRequest(f"the reference was not recorded at batch {missing[0]}", fix="record it at that batch")
        return [self._probe(probe, series[probe.key]) for probe in wanted]

    def _probe(self, probe: Probe, answers: Series) -> Part:
        data = probe.of(self._data)
        rows = list(probe.rows(data, len(answers) * probe.batch))
        return replace(self._part(probe, rows, answers), data=data)

    def _is_asked(self, probe: Probe) -> bool:
        """A reduced precision is right within the range of what it was made with alone."""
        if not probe.as_sampled:
            return (not probe.reach or self._precision == Precision.FP32) and probe.batch in self._batches
        return bool(probe.sizes) and all(size in self._own(axis) for axis, size in probe.sizes.items())

    def _own(self, axis: str | None) -> Bounds:
        """The sizes of an axis that the copy says it is for."""
        return self._bounds.get(axis or "", ANY_SIZE)

    def _part(self, probe: Probe, rows: list[Array], answers: Series, metric: Metric | None = None) -> Part:
        """Sentences speak of the batch where there is one and nothing else is special, else of sizes."""
        sizes = probe.sizes or ({} if self._batched else self._sizes)
        where = f"at batch {probe.batch}" if self._batched and not probe.sizes else ""
        if sizes:
            where = f"at {', '.join(f'{axis}={size}' for axis, size in sizes.items())}"
        where = values_told(probe, self._signature.inputs) or where
        return Part(probe, where, self._data, rows, answers, metric)

    def run_all(self, session: Session, parts: Sequence[Part]) -> list[Found]:
        """What comes of each part. Between the smallest integers and the largest no others are asked where those among
        the largest, many of every size, hide nothing, and the copy is as right with them as with its samples."""
        found: list[Found] = []
        larger = [part for part in parts if part.probe.bits > FIRST_BITS]
        for part in parts[: len(parts) - len(larger)]:
            found.append(self.run(session, part, found))
        if len(larger) > 1 and larger[-1].integers >= _MANY and is_level(parts[0].answers, larger[-1].answers):
            widest = self._asked(session, larger[-1])
            if widest.verdict == PASS:
                return [*found, widest]
        for part in larger:
            found.append(self.run(session, part, found))
        return found

    def run(self, session: Session, part: Part, before: Sequence[Found] = ()) -> Found:
        """Ask, compare, judge. `before`: what came of the parts before it, which tells how much larger integers may
        lose."""
        if part.probe.reach:
            part = replace(part, eased_db=self._eased(part, before))
        found = self._asked(session, part)
        return self._told_only(found) if part.probe.bits > WORD_BITS and found.verdict == FAIL else found

    def _asked(self, session: Session, part: Part) -> Found:
        tally = _Tally(self._batched)
        try:
            for rows, want in zip(part.rows, part.answers, strict=True):
                got = session.run(feeds_of(part.data, rows, self._signature, part.probe.sizes))
                differs = structure(got, want)
                if differs:
                    return self.refused(part, _sentence(differs, explain(got, want, batched=self._batched)))
                tally.add(got, want, len(rows))
                self._score(tally, part, rows, got, want)
        except TransloadError as error:
            return self.refused(part, error.what)
        return self._judged(part, tally)

    def _score(self, tally: _Tally, part: Part, rows: Array, got: Answers, want: Answers) -> None:
        if part.metric is not None and self._data.labels is not None:
            labels = self._data.labels[rows]
            tally.scores.append(np.asarray(part.metric.score(got, labels)))
            tally.reference_scores.append(np.asarray(part.metric.score(want, labels)))

    def _judged(self, part: Part, tally: _Tally) -> Found:
        drift = combine(tally.drifts)
        metric, complaint = _metric_facts(part.metric, tally)
        judgement = judge(drift, self._rule(part), metric)
        if part.probe.is_blank and not drift.non_finite:
            judgement = Judgement(PASS, None, judgement.tolerance)
        if judgement.verdict == FAIL:
            looks = self._culprits(part, tally) if part.probe.reach else self._looks(part, tally)
            judgement = Judgement(FAIL, _sentence(judgement.reason or "", looks), judgement.tolerance)
        elif not part.probe.as_sampled or part.probe.is_empty:  # all may give one answer, or none; the samples vary
            judgement = Judgement(PASS, None, judgement.tolerance)
        elif complaint and judgement.verdict == PASS and self._rule(part).by_metric:
            judgement = Judgement(INCONCLUSIVE, complaint, judgement.tolerance)
        return self._found(part, drift, judgement, metric)

    def _told_only(self, found: Found) -> Found:
        """Beyond 32 bits what differs is told, and no fail."""
        judged = Judgement(PASS, found.judgement.reason, found.judgement.tolerance)
        return Found(found.probe, {**found.row, "verdict": PASS}, judged)

    def _looks(self, part: Part, tally: _Tally) -> str | None:
        return tally.looks() or self._suspects(part, tally) or self._unsteady(tally)

    def _unsteady(self, tally: _Tally) -> str | None:
        """Where the model multiplies rounding errors, that it does: every operator of a copy rounds once more."""
        drift, steady_db = combine(tally.drifts), self.record.steady_db
        if steady_db is None or drift.sqnr_db is None or drift.sqnr_db < steady_db - _ROUNDED_DB:
            return None
        if drift.non_finite or self._precision != Precision.FP32:
            return None
        return (
            f"the model itself agrees to {steady_db:.0f} dB where its inputs differ in their last bits: it multiplies "
            "what is rounded, and no two runtimes round alike; set sqnr_db under [validate] in a pipeline file"
        )

    def _culprits(self, part: Part, tally: _Tally) -> str | None:
        """The integers that a wrong answer was given to."""
        return culprits(self._calls(part, tally), tuple(part.probe.reach), batched=self._batched)

    def _suspects(self, part: Part, tally: _Tally) -> str | None:
        """Of random samples, the integers that only wrong answers were given to, with what mends that."""
        found = suspects(self._calls(part, tally), tuple(self.record.reach), batched=self._batched)
        return f"{found}; {_OWN_SAMPLES}" if found else None

    def _calls(self, part: Part, tally: _Tally) -> list[Call]:
        feeds = [feeds_of(part.data, rows, self._signature, part.probe.sizes) for rows in part.rows]
        return [(fed, *answers) for fed, answers in zip(feeds, tally.calls, strict=False)]  # a tally keeps the first

    def _eased(self, part: Part, before: Sequence[Found]) -> float:
        """The floor where integers are larger than in the probe before."""
        floor_db = Rule.of(self._precision, self._floor_db).sqnr_db
        alike = [one for one in before if one.probe.batch == part.probe.batch]
        last = [one for one in alike if not one.probe.sizes and not one.probe.fills]
        if not last:
            return floor_db
        more = part.probe.bits - max(last[-1].probe.bits, SAMPLED.bits)
        return eased_db(floor_db, last[-1].row["sqnr_db"], more)

    def refused(self, part: Part, why: str) -> Found:
        """A part that failed before there were numbers to judge."""
        return self._found(part, None, Judgement(FAIL, why, self._rule(part).tolerance), None)

    def _rule(self, part: Part) -> Rule:
        """The metric judges the whole set only: the interval of twenty samples spans every limit."""
        floor_db = self._floor_db if part.eased_db is None else part.eased_db
        return Rule.of(self._precision, floor_db, self._allowed_loss if part.metric is not None else None)

    def _found(self, part: Part, drift: Drift | None, judged: Judgement, metric: Mapping[str, Any] | None) -> Found:
        reason = f"{part.where}: {judged.reason}" if judged.reason and part.where else judged.reason
        if judged.verdict == FAIL and (mend := mend_told(part.probe)):
            reason = f"{reason}; {mend}"
        row = {
            "runtime": self.runtime,
            "batch": part.probe.batch,
            "samples": part.samples,
            "max_abs": drift and drift.max_abs,
            "rms": drift and drift.rms,
            "cosine": drift and drift.cosine,
            "sqnr_db": drift and drift.sqnr_db,
            "non_finite": drift and drift.non_finite,
            "tolerance": dict(judged.tolerance),
            "verdict": judged.verdict,
            "metric": metric,
        }
        return Found(part.probe, row, Judgement(judged.verdict, reason, judged.tolerance))

    def agreement(self, found: Sequence[Found], sqnr_db: float | None) -> str:
        """One sentence on a copy that is right: how well it agrees, and where that was seen."""
        batch = self._signature.batch or ""
        sampled = [one.probe for one in found if one.probe.as_sampled]
        batches = [str(one.sizes.get(batch, one.batch)) for one in sampled if {batch}.issuperset(one.sizes)]
        seen = [f"batches {', '.join(batches)}{self._limits(self._signature.batch)}"] if self._batched else []
        seen += [self._sizes_seen(axis, sizes) for axis, sizes in self.sizes(found).items()]
        how = "to the last bit" if sqnr_db is None else f"to {sqnr_db:.0f} dB"
        where = f"at {' and '.join(seen)}" if seen else f"in {found[0].row['samples']} calls"
        doubt = next((f"; {one.judgement.reason}" for one in found if one.judgement.reason), "")
        return f"agrees {how} {where}{self._integers_seen(found)}{doubt}"

    def _integers_seen(self, found: Sequence[Found]) -> str:
        """With which integers, where random samples stand for all."""
        asked = (one for one in found if one.probe.reach)
        right = [one.probe.reach for one in takewhile(lambda one: not one.judgement.reason, asked)]
        reach = right[-1] if right else dict.fromkeys(self.record.reach, SAMPLED)
        return f", with {reach_told(reach)}{'' if right else ' alone'}" if reach else ""

    def sizes(self, found: Sequence[Found]) -> dict[str, list[int]]:
        """The sizes of each axis other than the batch at which the copy did not fail, the data's own first."""
        good = [one.probe.sizes for one in found if one.verdict != FAIL and one.probe.as_sampled]
        own = {axis: [size] if any(not sizes for sizes in good) else [] for axis, size in self._sizes.items()}
        return {axis: [*sizes, *(one[axis] for one in good if axis in one)] for axis, sizes in own.items()}

    def lone(self, found: Sequence[Found]) -> str | None:
        """What is missing where a dynamic axis was seen at one size alone: that says nothing of any other."""
        filled = {axis: [size for size in sizes if size] for axis, sizes in self.sizes(found).items()}
        seen = {axis: sizes for axis, sizes in filled.items() if len(sizes) < 2}
        axis = next(iter(seen), None)
        if axis is None:
            return None
        fixed = f"write {seen[axis][0]} for {axis} in --input, or " if seen[axis] else ""
        return f"one size of {axis} is no evidence that it is dynamic: {fixed}give the bounds within which it answers"

    def _sizes_seen(self, axis: str, sizes: Sequence[int]) -> str:
        return f"{axis} {', '.join(map(str, sizes))}{' alone' if len(sizes) < 2 else ''}{self._limits(axis)}"

    def _limits(self, axis: str | None) -> str:
        """What a reader must know of an axis: that the copy is for fewer sizes of it than the model, and at which sizes
        the model itself told nothing."""
        own, models = (bounds.get(axis or "") for bounds in (self._bounds, self._signature.bounds))
        told = f" (this copy is for {axis}={own} alone)" if own and own != models else ""
        refused, constant = (limits.get(axis or "", ()) for limits in (self.record.refused, self.record.constant))
        if refused:
            told += f" (the model itself does not answer at {', '.join(map(str, refused))})"
        return told if not constant else f"{told} (at {', '.join(map(str, constant))} its answers are all alike)"


def _metric_facts(metric: Metric | None, tally: _Tally) -> tuple[dict[str, Any] | None, str | None]:
    """The metric of both sides, or the sentence that says why there is none."""
    if metric is None:
        return None, None
    try:
        want, got = np.concatenate(tally.reference_scores), np.concatenate(tally.scores)
        return metric_row(metric.name, want, got), None
    except BadRequest as error:
        return None, error.what


def _sentence(what: str, looks: str | None) -> str:
    return f"{what}; {looks}" if looks else what


def _metric_of(options: Mapping[str, Any]) -> Metric | None:
    """The metric of the recipe that the options name; None where they name a model that is no recipe."""
    from ...models.loading.catalogue import load_named
    from ...models.recipe import Recipe

    if not options.get("ref"):
        return None
    load: Callable[[CodeRef], Any] = load_named
    found = load(CodeRef(options["ref"], options.get("root")))
    return found.metric if isinstance(found, Recipe) else None
