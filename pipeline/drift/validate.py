"""The work of drift: record the reference's answers, hold an artifact against them. Each runs in a worker of its own.

answer    inputs {model, data}                 -> answers.npz, probes.npz; {device, samples}
validate  inputs {artifact, data, reference}   -> {rows, device, reason, note}
verify    inputs {artifact, data, reference}   -> {status, reason, sqnr_db, batches}

What an inconclusive or failed comparison says is one sentence, and names the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...models.artifact import read_artifact
from ...models.dataset import Dataset, read_dataset
from ...models.errors import BadRequest, ToolMissing, TransloadError
from ...models.job import Job
from ...models.recipe import Metric
from ...models.signature import Array
from ...models.sources import CodeRef
from ...serving.device import check_device
from ...serving.session import Session
from .layout import explain, join, structure
from .metric import metric_row
from .numeric import Drift, OutputDrift, combine, compare
from .recorded import ANSWERS, PROBE_SAMPLES, PROBES, Answers, Series, feeds_of, probe, read_calls, whole, write_calls
from .rules import FAIL, INCONCLUSIVE, PASS, Judgement, Rule, judge
from .sessions import default_runtime, open_session

TEST = "test.npz"
BATCHES = (1, 2, 5)
CHUNK = 256
_REFERENCE_FIX = "make the reference again of the same data"


def answer(job: Job) -> Mapping[str, Any]:
    """Record what the model in inputs["model"] (a source or an artifact) answers to the test set.

    Options: runtime, device, threads, batches, chunk, model; probes_only: not the whole set, which only `validate`
    reads, and which takes most of the time. Raises BadRequest where the model answers the same
    question in two ways (it is in training mode, or draws random numbers): nothing can be held against that.
    """
    data, options = _test_data(job), job.options
    chunk = min(int(options.get("chunk", CHUNK)), len(data))
    with closing(_open(job, "model", options["runtime"])) as session:
        wrong = check_device(session, options.get("device", "cpu"))
        if wrong:
            raise BadRequest(f"the reference did not run where it should: {wrong}", fix="name a device that is there")
        probes = {batch: _ask(session, data, probe(len(data), batch)) for batch in _batches(job)}
        _check_repeats(session, data, probes)
        if not options.get("probes_only"):
            write_calls(job.out / ANSWERS, {chunk: _ask(session, data, whole(len(data), chunk))})
        device = session.device
    write_calls(job.out / PROBES, probes)
    return {"device": device, "samples": len(data)}


def validate(job: Job) -> Mapping[str, Any]:
    """Hold an artifact against the reference on the whole test set, and at each probe batch size.

    Options: runtime, device, threads, batches, precision, tolerance_sqnr_db, allowed_loss, ref, root, model. `rows`
    are result.DriftRow without `artifact`, the whole test set first. `reason` is the first sentence of a row that
    failed, or None; `note` says what is still open, or what a pass does not tell, or is None. Raises what the runtime
    raises where the artifact cannot be opened.
    """
    options = job.options
    check = _Check(job, options.get("runtime") or default_runtime(job.inputs["artifact"]))
    with closing(_open(job, "artifact", check.runtime)) as session:
        wrong = check_device(session, options.get("device", "cpu"))
        found = [
            check.refused(part, wrong) if wrong else check.run(session, part)
            for part in (check.whole_set(), *check.probes())
        ]
        device = session.device
    return {
        "rows": [one.row for one in found],
        "device": device,
        "reason": _first_reason(found, FAIL),
        "note": _first_reason(found, INCONCLUSIVE) or check.note,
    }


def verify(job: Job) -> Mapping[str, Any]:
    """The quick check of a conversion: does the artifact, opened anew, answer the probes as the reference does?

    Names, order, shapes, dtypes and the dynamic batch are part of the answer. Options as for `validate`; no metric.
    `status` is verified, wrong, or unverified: it agrees with a reference that answers the same to everything.
    `sqnr_db` is None where there is no noise, or no answer.
    """
    check = _Check(job, job.options.get("runtime") or default_runtime(job.inputs["artifact"]))
    parts = check.probes()
    try:
        with closing(_open(job, "artifact", check.runtime)) as session:
            wrong = check_device(session, job.options.get("device", "cpu"))
            found = [check.refused(part, wrong) if wrong else check.run(session, part) for part in parts]
    except ToolMissing:
        raise
    except BadRequest as error:  # the payload itself is at fault: a runtime refuses what a converter made
        return {"status": "wrong", "reason": error.what, "sqnr_db": None, "batches": [], "ran": False}
    good = [one for one in found if one.verdict != FAIL]
    noise = [one.row["sqnr_db"] for one in found if one.row["sqnr_db"] is not None]
    failed = next((one for one in found if one.verdict == FAIL), None)
    return {
        "status": "wrong"
        if failed
        else "unverified"
        if any(one.verdict == INCONCLUSIVE for one in found)
        else "verified",
        "reason": failed.judgement.reason if failed else _agreement(found, min(noise, default=None)),
        "sqnr_db": min(noise, default=None),
        "batches": [one.row["batch"] for one in good],
    }


@dataclass(frozen=True)
class _Part:
    """Calls of one batch size, and what the reference answered to each. `metric`: the task's metric is taken."""

    batch: int
    rows: Sequence[Array]
    answers: Sequence[Answers]
    metric: Metric | None = None

    @property
    def samples(self) -> int:
        return len(np.unique(np.concatenate(self.rows)))


@dataclass(frozen=True)
class _Found:
    """What came of one part."""

    row: Mapping[str, Any]
    judgement: Judgement

    @property
    def verdict(self) -> str:
        return self.judgement.verdict


@dataclass
class _Tally:
    """What the calls of a part add up to."""

    drifts: dict[str, OutputDrift] = field(default_factory=dict)
    scores: list[Array] = field(default_factory=list)
    reference_scores: list[Array] = field(default_factory=list)
    calls: list[tuple[Answers, Answers]] = field(default_factory=list)  # candidate and reference: some of the first

    kept: int = 0  # samples in `calls`

    def add(self, got: Answers, want: Answers, samples: int) -> None:
        if self.kept < PROBE_SAMPLES:
            self.calls.append((got, want))
            self.kept += samples
        for name, array in want.items():
            self.drifts[name] = self.drifts.get(name, OutputDrift()).merge(compare(got[name], array))

    def looks(self) -> str | None:
        """What the wrong answers look like: of one call, else of several (one sample alone tells little)."""
        got, want = zip(*self.calls, strict=True)
        return explain(got[0], want[0]) or explain(join(got), join(want))


class _Check:
    """One artifact in one runtime against the recorded reference."""

    def __init__(self, job: Job, runtime: str) -> None:
        options = job.options
        self.runtime = runtime
        self._data = _test_data(job)
        self._reference = job.inputs["reference"]
        self._batches = _batches(job)
        self._precision = options.get("precision") or str(read_artifact(job.inputs["artifact"]).target.precision)
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

    def whole_set(self) -> _Part:
        """All test samples, in the chunks that the reference was asked in."""
        series = read_calls(self._reference / ANSWERS)
        chunk, answers = next(iter(series.items()))
        rows = list(whole(len(self._data), chunk))
        if len(rows) != len(answers):
            raise BadRequest("the reference was recorded on other data", fix=_REFERENCE_FIX)
        return _Part(chunk, rows, answers, self._metric)

    def probes(self) -> list[_Part]:
        """The first samples at each probe batch size."""
        series: Series = read_calls(self._reference / PROBES)
        missing = [batch for batch in self._batches if batch not in series]
        if missing:
            raise BadRequest(f"the reference was not recorded at batch {missing[0]}", fix="record it at that batch")
        return [_Part(batch, list(probe(len(self._data), batch)), series[batch]) for batch in self._batches]

    def run(self, session: Session, part: _Part) -> _Found:
        """Ask, compare, judge."""
        tally = _Tally()
        try:
            for rows, want in zip(part.rows, part.answers, strict=True):
                got = session.run(feeds_of(self._data, rows, session.signature))
                differs = structure(got, want)
                if differs:
                    return self.refused(part, _sentence(differs, explain(got, want)))
                tally.add(got, want, len(rows))
                self._score(tally, part, rows, got, want)
        except TransloadError as error:
            return self.refused(part, error.what)
        return self._judged(part, tally)

    def _score(self, tally: _Tally, part: _Part, rows: Array, got: Answers, want: Answers) -> None:
        if part.metric is not None and self._data.labels is not None:
            labels = self._data.labels[rows]
            tally.scores.append(np.asarray(part.metric.score(got, labels)))
            tally.reference_scores.append(np.asarray(part.metric.score(want, labels)))

    def _judged(self, part: _Part, tally: _Tally) -> _Found:
        drift = combine(tally.drifts)
        metric, complaint = _metric_facts(part.metric, tally)
        judgement = judge(drift, self._rule(part), metric)
        if judgement.verdict == FAIL:
            judgement = Judgement(FAIL, _sentence(judgement.reason or "", tally.looks()), judgement.tolerance)
        elif complaint and judgement.verdict == PASS and self._rule(part).by_metric:
            judgement = Judgement(INCONCLUSIVE, complaint, judgement.tolerance)
        return self._found(part, drift, judgement, metric)

    def refused(self, part: _Part, why: str) -> _Found:
        """A part that failed before there were numbers to judge."""
        return self._found(part, None, Judgement(FAIL, why, self._rule(part).tolerance), None)

    def _rule(self, part: _Part) -> Rule:
        """The metric judges the whole set only: the interval of twenty samples spans every limit."""
        return Rule.of(self._precision, self._floor_db, self._allowed_loss if part.metric is not None else None)

    def _found(self, part: _Part, drift: Drift | None, judged: Judgement, metric: Mapping[str, Any] | None) -> _Found:
        reason = None if judged.reason is None else f"at batch {part.batch}: {judged.reason}"
        row = {
            "runtime": self.runtime,
            "batch": part.batch,
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
        return _Found(row, Judgement(judged.verdict, reason, judged.tolerance))


def _metric_facts(metric: Metric | None, tally: _Tally) -> tuple[dict[str, Any] | None, str | None]:
    """The metric of both sides, or the sentence that says why there is none."""
    if metric is None:
        return None, None
    try:
        want, got = np.concatenate(tally.reference_scores), np.concatenate(tally.scores)
        return metric_row(metric.name, want, got), None
    except BadRequest as error:
        return None, error.what


def _first_reason(found: Sequence[_Found], verdict: str) -> str | None:
    return next((one.judgement.reason for one in found if one.verdict == verdict), None)


def _agreement(found: Sequence[_Found], sqnr_db: float | None) -> str:
    batches = ", ".join(str(one.row["batch"]) for one in found)
    how = "to the last bit" if sqnr_db is None else f"to {sqnr_db:.0f} dB"
    doubt = next((f"; {one.judgement.reason}" for one in found if one.judgement.reason), "")
    return f"agrees {how} at batches {batches}{doubt}"


def _sentence(what: str, looks: str | None) -> str:
    return f"{what}; {looks}" if looks else what


def _ask(session: Session, data: Dataset, parts: Iterable[Array]) -> list[Answers]:
    return [session.run(feeds_of(data, rows, session.signature)) for rows in parts]


def _check_repeats(session: Session, data: Dataset, probes: Series) -> None:
    """Hold the reference against itself, at the largest batch: a model that draws numbers draws most of them there.
    Threads may round differently; more than that is another answer."""
    batch = max(probes)
    again = session.run(feeds_of(data, next(probe(len(data), batch)), session.signature))
    drift = combine({name: compare(again[name], array) for name, array in probes[batch][0].items()})
    if drift.non_finite or drift.mismatches or (drift.sqnr_db is not None and drift.sqnr_db < 60):
        raise BadRequest(
            "the reference gives two answers to the same inputs", fix="put the model in eval mode; it may draw nothing"
        )


def _test_data(job: Job) -> Dataset:
    path: Path = job.inputs["data"] / TEST
    data = read_dataset(path)
    if not len(data):
        raise BadRequest(f"{path} holds no samples", fix="give at least one")
    return data


def _open(job: Job, which: str, runtime: str) -> Session:
    options = job.options
    return open_session(
        runtime,
        job.inputs[which],
        device=options.get("device", "cpu"),
        threads=int(options.get("threads", 1)),
        services=job.services,
        model=options.get("model"),
    )


def _batches(job: Job) -> tuple[int, ...]:
    batches = tuple(int(batch) for batch in job.options.get("batches", BATCHES))
    if not batches or min(batches) < 1:
        raise BadRequest(f"probe batches are 1 or more, got {list(batches)}", fix="use --batch 1,2,5")
    return batches


def _metric_of(options: Mapping[str, Any]) -> Metric | None:
    """The metric of the recipe that the options name; None where they name a model that is no recipe."""
    from ...models.recipe import Recipe
    from ...models.zoo.catalogue import load_named

    if not options.get("ref"):
        return None
    load: Callable[[CodeRef], Any] = load_named
    found = load(CodeRef(options["ref"], options.get("root")))
    return found.metric if isinstance(found, Recipe) else None
