"""The release rules: which numbers let an artifact out, and which do not decide anything yet.

Pure functions from rows to rows. A rule has three answers. `pass` and `fail` need evidence that lies wholly on one
side of the limit; evidence that spans it is `inconclusive`, and never a pass (docs/gate.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from ...models.errors import Exit
from ...models.formats import Format
from ...serving.runtimes.provider_check import runs_on
from ...serving.runtimes.runtime_table import RUNTIMES, runtimes_for
from ..drift.metrics.equivalence import loss_interval, samples_needed
from ..drift.metrics.metric_text import format_change, format_interval, format_loss, format_value
from .release_limits import KINDS, SOURCE, Limit, judge_at_most, judge_interval, limit_for, read_limit
from .schema import ArtifactRow, DriftRow, GateRow, Interval, LatencyRow, RouteStatus, Status, Verdict

Pair = tuple[str, str]  # artifact, runtime
WORST_FIRST = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
_METRIC_ENDS = ("metric_min", "metric_max")  # judged of the source, too
_MADE = (  # of a route that gave an artifact
    RouteStatus.WRONG,
    RouteStatus.VERIFIED,
    RouteStatus.DEGRADED,
    RouteStatus.UNVERIFIED,
)


@dataclass(frozen=True)
class GateRules:
    """The limits of a release; None switches a rule off. A limit that is met exactly is kept.
    An artifact whose answers left their tolerance always fails: that rule has no switch."""

    require_verified: bool = False  # refuse `degraded` too; a note refuses nothing
    sqnr_db: Limit | None = None  # at least, in every runtime
    metric_loss: Limit | None = None  # at most, absolute; None: what the drift row was allowed (the recipe's)
    metric_min: Limit | None = None  # of a score, at least: of the source, and of every artifact in every runtime
    metric_max: Limit | None = None  # of an error, at most
    latency_ratio: Limit | None = None  # seconds over the reference's, at most
    latency_p99: Limit | None = None  # seconds, at most
    size: Limit | None = None  # bytes, at most
    size_ratio: Limit | None = None  # size over that of pt2, at most
    peak_memory: Limit | None = None  # bytes of the process that was measured, at most
    answers: bool = True  # every artifact answers in every runtime that takes it
    device: str | None = None  # "cpu", "cuda", "cuda:1": where it must have run; None: anywhere
    runtimes: tuple[str, ...] | None = None  # the runtimes asked for; None: those that any row speaks of

    def __post_init__(self) -> None:
        for rule in KINDS:
            object.__setattr__(self, rule, read_limit(rule, getattr(self, rule)))


@dataclass(frozen=True)
class _Evidence:
    """The rows and limits that the rules judge."""

    rules: GateRules
    artifacts: Sequence[ArtifactRow]
    drift: Sequence[DriftRow]
    latency: Sequence[LatencyRow]
    failures: Mapping[Pair, str]
    reasons: Mapping[Pair, str]
    intervals: Mapping[Pair, Interval]


def gate(
    rules: GateRules,
    artifacts: Sequence[ArtifactRow],
    drift: Sequence[DriftRow],
    latency: Sequence[LatencyRow],
    *,
    failures: Mapping[Pair, str] | None = None,
    reasons: Mapping[Pair, str] | None = None,
    intervals: Mapping[Pair, Interval] | None = None,
) -> tuple[GateRow, ...]:
    """Apply every rule; return the rows in the order of `artifacts`, then of RULES.
    `failures` holds the sentence of each (artifact, runtime) that did not answer, for the runtimes that only drift
    asked; a latency row has its own in `doubts`. `reasons` holds the sentence of each pair that answered and did not
    pass: what the wrong answers look like. `intervals` holds the 95 % interval of the
    metric of each pair, and of the source, as far as they are known. Rows of drift or latency whose artifact is not in
    `artifacts` are the reference's, and are not judged."""
    evidence = _Evidence(rules, artifacts, drift, latency, failures or {}, reasons or {}, intervals or {})
    order = {row.name: at for at, row in enumerate(artifacts)}
    rows = [row for rule in RULES for row in rule(evidence) if row.artifact in order or row.rule in _METRIC_ENDS]
    return tuple(sorted(rows, key=lambda row: order.get(row.artifact or "", -1)))


def verdict_of(rows: Iterable[GateRow], artifacts: Sequence[ArtifactRow]) -> tuple[Verdict, Exit]:
    """Return the run's verdict and exit status: fail before inconclusive before pass.
    A wanted target with no route left ends in Exit.TOOLCHAIN, whatever else failed: the target is not there. An
    artifact that failed is never let out, even where no rule says so, and no evidence is no pass."""
    if any(no_route_left(row) for row in artifacts):
        return Verdict.FAIL, Exit.TOOLCHAIN
    worst = worst_verdict([*(row.verdict for row in rows), *(_verdict_of_status(row.status) for row in artifacts)])
    return worst, {Verdict.PASS: Exit.PASS, Verdict.FAIL: Exit.FAIL, Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE}[worst]


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return fail before inconclusive before pass; inconclusive where there is no verdict."""
    present = set(verdicts) or {Verdict.INCONCLUSIVE}
    return next(verdict for verdict in WORST_FIRST if verdict in present)


def no_route_left(row: ArtifactRow) -> bool:
    """Return whether tools alone kept this target from being made.
    An artifact that gave wrong answers is drift's failure, not a tool's."""
    return row.path is None and not any(tried.status in _MADE for tried in row.tried)


def why_not_made(row: ArtifactRow) -> str:
    """Return one sentence on an artifact that is not there: that of the route that came furthest."""
    for status in (RouteStatus.WRONG, RouteStatus.FAILED, RouteStatus.MISSING, RouteStatus.NOT_TRIED):
        for tried in row.tried:
            if tried.status is status:
                return tried.reason
    return f"no route leads to {row.name}"


def is_reference(row: LatencyRow) -> bool:
    """Return whether a latency row is the reference's own: its ratio is 1 and the interval has no width."""
    return row.ratio_to_reference == 1 and row.ratio_ci95 in (None, (1.0, 1.0))


def answered(row: DriftRow | LatencyRow) -> bool:
    """Return whether the runtime gave answers, right or wrong."""
    if isinstance(row, LatencyRow):
        return row.p50_s is not None
    return row.max_abs is not None or row.mismatch is not None


def _answers(evidence: _Evidence) -> Iterator[GateRow]:
    if not evidence.rules.answers:
        return
    for artifact in evidence.artifacts:
        runtimes = _runtimes_to_answer(evidence, artifact) if artifact.path else []
        if not runtimes:
            reason = "it was run in no runtime" if artifact.path else why_not_made(artifact)
            yield GateRow("answers", "answers", reason, Verdict.FAIL, artifact.name, None)
        for runtime in runtimes:
            device = _device_for(evidence.rules.device, runtime) if artifact.format else None  # else served elsewhere
            failure = _why_no_answer(evidence, artifact.name, runtime, device)
            verdict = _verdict_of_silence(evidence, artifact, runtime) if failure else Verdict.PASS
            limit = f"answers on {device}" if device else "answers"
            yield GateRow("answers", limit, failure or "answers", verdict, artifact.name, runtime)


def _verdict_of_silence(evidence: _Evidence, artifact: ArtifactRow, runtime: str) -> Verdict:
    """Judge an artifact without an answer in a runtime: a foreign server's silence says nothing of the model."""
    pair = (artifact.name, runtime)
    drift = [row for row in evidence.drift if (row.artifact, row.runtime) == pair and not answered(row)]
    timed = [row for row in evidence.latency if (row.artifact, row.runtime) == pair and not answered(row)]
    foreign = {row.verdict is Verdict.INCONCLUSIVE for row in drift} | {row.server == "remote" for row in timed}
    return Verdict.INCONCLUSIVE if not artifact.format or foreign == {True} else Verdict.FAIL


def _runtimes_to_answer(evidence: _Evidence, artifact: ArtifactRow) -> list[str]:
    """Return the runtimes that this artifact must answer in, in the table's order, then those that the table lacks."""
    rows: list[DriftRow | LatencyRow] = [*evidence.drift, *evidence.latency]
    wanted = set(evidence.rules.runtimes if evidence.rules.runtimes is not None else (row.runtime for row in rows))
    known = runtimes_for(Format(artifact.format), artifact.flex) if artifact.format else ()
    takes = [runtime.name for runtime in known if runtime.name in wanted]
    with_rows = {row.runtime for row in rows if row.artifact == artifact.name}
    return takes + sorted((with_rows | {at for name, at in evidence.failures if name == artifact.name}) - set(takes))


def _device_for(device: str | None, runtime: str) -> str | None:
    """Return the device that this runtime must have run on: without CUDA that is the CPU."""
    if device is None or runtime not in RUNTIMES:
        return device
    return device if device.partition(":")[0] in RUNTIMES[runtime].devices else "cpu"


def _why_no_answer(evidence: _Evidence, artifact: str, runtime: str, device: str | None) -> str | None:
    """Return why this artifact does not count as answering in this runtime, in one sentence; None where it does."""
    pair = (artifact, runtime)
    timed = [row for row in evidence.latency if (row.artifact, row.runtime) == pair]
    compared = [row for row in evidence.drift if (row.artifact, row.runtime) == pair]
    if pair in evidence.failures:
        return evidence.failures[pair]
    for row in timed:
        if not answered(row):
            return row.doubts[0] if row.doubts else f"it was not timed at batch {row.batch}"
        if device and not runs_on(row.device, device):
            return f"it ran on {row.device}"
    for drift in compared:
        if not answered(drift):
            return f"it gave no answer at batch {drift.batch}"
    return None if timed or compared else "it was not run"


def _drift(evidence: _Evidence) -> Iterator[GateRow]:
    """Judge each artifact in each runtime by the tolerance that its own rows name."""
    for (artifact, runtime), rows in by_pair(evidence.drift).items():
        judged = [row for row in rows if answered(row)] if evidence.rules.answers else rows
        if not judged:
            continue
        worst = worst_verdict(row.verdict for row in judged)
        row = min((row for row in judged if row.verdict is worst), key=_telling)
        reason = None if worst is Verdict.PASS else evidence.reasons.get((artifact, runtime))
        yield GateRow("drift", _tolerance(row), reason or _drift_numbers(row), worst, artifact, runtime)


def _verified(evidence: _Evidence) -> Iterator[GateRow]:
    for row in evidence.artifacts if evidence.rules.require_verified else ():
        verdict = Verdict.FAIL if row.status is Status.DEGRADED else _verdict_of_status(row.status)
        yield GateRow("verified", str(Status.VERIFIED), str(row.status), verdict, row.name, None)


def _verdict_of_status(status: Status) -> Verdict:
    return {Status.FAILED: Verdict.FAIL, Status.UNVERIFIED: Verdict.INCONCLUSIVE}.get(status, Verdict.PASS)


def _telling(row: DriftRow) -> tuple[bool, bool, float]:
    """Sort by what a row says: another form first, then the metric, where that is what counts, then the loudest."""
    lacks_metric = row.tolerance.metric_loss is not None and row.metric is None
    return row.mismatch is None, lacks_metric, math.inf if row.sqnr_db is None else row.sqnr_db


def _unit(row: DriftRow) -> str:
    return (row.metric.unit or "") if row.metric is not None else ""


def _tolerance(row: DriftRow) -> str:
    parts = []
    if row.tolerance.sqnr_db is not None:
        parts.append(f"SQNR at least {row.tolerance.sqnr_db:g} dB")
    if row.tolerance.metric_loss is not None:
        name = row.metric.name if row.metric else "metric"
        parts.append(f"{name} loss at most {format_loss(row.tolerance.metric_loss, _unit(row))}")
    return ", ".join(parts) or "none"


def _drift_numbers(row: DriftRow) -> str:
    """Return the numbers that `_tolerance` names, in its order."""
    if not answered(row):
        return f"no answer at batch {row.batch}"
    if row.mismatch is not None:
        return f"{row.mismatch} at batch {row.batch}"
    parts = [f"{row.non_finite} elements differ in being finite"] if row.non_finite else []
    if row.tolerance.sqnr_db is not None or row.metric is None:
        sqnr = "no SQNR" if row.sqnr_db is None else f"SQNR {row.sqnr_db:.4g} dB"
        parts.append("identical" if row.max_abs == 0 and not row.non_finite else sqnr)
    if row.tolerance.metric_loss is not None and row.metric is not None:
        change = format_change(row.metric.delta, _unit(row))
        parts.append(f"{row.metric.name} changed by {change} {format_interval(*row.metric.ci95, _unit(row))}")
    return f"{', '.join([*parts, *_unexplained(row)])} at batch {row.batch}"


def _unexplained(row: DriftRow) -> list[str]:
    """Return what remains where the SQNR alone would have passed: integers that differ, outputs that do not vary."""
    least = row.tolerance.sqnr_db
    by_numbers = least is not None and (row.sqnr_db is None or row.sqnr_db >= least) and not row.non_finite
    if by_numbers and row.verdict is Verdict.FAIL:
        return [f"answers differ by up to {row.max_abs:.3g}"]
    return ["too little evidence"] if by_numbers and row.verdict is Verdict.INCONCLUSIVE else []


def _sqnr(evidence: _Evidence) -> Iterator[GateRow]:
    for (artifact, runtime), rows in by_pair(evidence.drift).items():
        limit = limit_for(evidence.rules.sqnr_db, artifact)
        judged = [row for row in rows if answered(row) or not evidence.rules.answers]
        if not judged or limit is None:
            continue
        verdict = worst_verdict(_sqnr_verdict(row, limit) for row in judged)
        noisy = [row.sqnr_db for row in judged if row.sqnr_db is not None]
        least = min(noisy) if noisy else ("identical" if verdict is Verdict.PASS else "no SQNR")
        yield GateRow("sqnr_db", limit, least, verdict, artifact, runtime)


def _sqnr_verdict(row: DriftRow, limit: float) -> Verdict:
    if (row.non_finite and row.lost is None) or row.mismatch is not None:
        return Verdict.FAIL
    if row.sqnr_db is not None:
        return Verdict.PASS if row.sqnr_db >= limit else Verdict.FAIL
    return Verdict.PASS if row.max_abs == 0 else Verdict.INCONCLUSIVE


def _metric(evidence: _Evidence) -> Iterator[GateRow]:
    """Judge the interval of the paired difference, not the difference."""
    for rows in by_pair(evidence.drift).values():
        judged = [pair for row in rows if (pair := _judge_metric(row, evidence.rules))]
        if judged:
            worst = worst_verdict(row.verdict for _, row in judged)
            yield max(((loss, row) for loss, row in judged if row.verdict is worst), key=lambda pair: pair[0])[1]


def _judge_metric(row: DriftRow, rules: GateRules) -> tuple[float, GateRow] | None:
    """Judge the interval of one row's loss, in the metric's unit and direction; None where no limit holds."""
    rule = limit_for(rules.metric_loss, row.artifact)
    limit = row.tolerance.metric_loss if rule is None else rule
    if row.metric is None or limit is None:
        return None
    metric = asdict(row.metric)
    low, loss, high = loss_interval(metric)
    needed = samples_needed(row.samples, metric, limit, alike=row.metric.reference == row.metric.candidate)
    verdict = judge_interval(low, high, limit)
    unit = row.metric.unit
    return loss, GateRow("metric_loss", float(limit), loss, verdict, row.artifact, row.runtime, unit, needed)


def _metric_ends(evidence: _Evidence) -> Iterator[GateRow]:
    """Judge the metric itself, of the source and of each artifact: a floor of a score, a ceiling of an error."""
    scores: dict[Pair, tuple[float, DriftRow] | None] = {}
    for row in evidence.drift:
        pair = (row.artifact, row.runtime)
        if row.metric is not None:  # the row of the whole test set
            scores.setdefault((SOURCE, "torch"), (row.metric.reference, row))
            scores[pair] = (row.metric.candidate, row)
        elif answered(row) or not evidence.rules.answers:
            scores.setdefault(pair, None)
    for rule in _METRIC_ENDS:
        for pair, score in scores.items():
            if (limit := limit_for(getattr(evidence.rules, rule), pair[0])) is not None:
                yield _metric_end(rule, limit, pair, score, evidence.intervals.get(pair))


def _metric_end(
    rule: str, limit: float, pair: Pair, score: tuple[float, DriftRow] | None, interval: Interval | None
) -> GateRow:
    """Judge one model's metric by its interval; without one by the metric alone, which is said."""
    artifact, runtime = pair[0], None if pair[0] == SOURCE else pair[1]
    if score is None or (metric := score[1].metric) is None:
        return GateRow(rule, limit, "no metric", Verdict.INCONCLUSIVE, artifact, runtime)
    value, unit = score[0], metric.unit or ""
    sign = -1 if rule == "metric_min" else 1
    low, high = sorted(sign * (end - limit) for end in interval or (value, value))
    excess = {"delta": sign * (value - limit), "ci95": (low, high), "higher_is_better": False}
    needed = samples_needed(score[1].samples, excess, 0.0)
    shown: float | str = value if interval else f"{format_value(value, unit)} (one value: its interval is not known)"
    return GateRow(rule, limit, shown, judge_interval(low, high, 0.0), artifact, runtime, unit, needed)


def _latency_ratio(row: LatencyRow, limit: float) -> tuple[float | str, Verdict]:
    if row.ratio_to_reference is None or row.ratio_ci95 is None:
        return row.ratio_to_reference or "no ratio", Verdict.INCONCLUSIVE
    return row.ratio_to_reference, judge_interval(*row.ratio_ci95, limit)


def _p99(row: LatencyRow, limit: float) -> tuple[float | str, Verdict]:
    """Judge the p99. A doubted one decides nothing, unless the p90 lies above the limit: the p99 is never below it."""
    if row.p99_s is None:
        return "no p99", Verdict.INCONCLUSIVE
    if row.p90_s is not None and row.p90_s > limit:
        return row.p99_s, Verdict.FAIL
    if any("p99" in doubt for doubt in row.doubts):
        return row.p99_s, Verdict.INCONCLUSIVE
    return row.p99_s, judge_at_most(row.p99_s, limit)


def _peak_memory(row: LatencyRow, limit: float) -> tuple[float | str, Verdict]:
    """Judge the resident memory of the process that was measured; nobody sees that of a server."""
    if row.peak_rss_bytes is None:
        return "not measured", Verdict.INCONCLUSIVE
    return float(row.peak_rss_bytes), judge_at_most(row.peak_rss_bytes, limit)


def _per_batch(
    rule: str, judge: Callable[[LatencyRow, float], tuple[float | str, Verdict]], evidence: _Evidence
) -> Iterator[GateRow]:
    """Yield a row for each latency row that has a limit; the batch size stands in the rule's name."""
    for row in evidence.latency:
        limit = limit_for(getattr(evidence.rules, rule), row.artifact, row.batch)
        if limit is None or is_reference(row) or (evidence.rules.answers and not answered(row)):
            continue
        value, verdict = judge(row, limit)
        yield GateRow(f"{rule} batch={row.batch}", limit, value, verdict, row.artifact, row.runtime)


def _size(evidence: _Evidence) -> Iterator[GateRow]:
    programs = (row.bytes for row in evidence.artifacts if row.format and Format(row.format).spec.is_program)
    reference = next(programs, None)
    for row in evidence.artifacts:
        if row.bytes is None:
            continue
        if (limit := limit_for(evidence.rules.size, row.name)) is not None:
            yield GateRow("size", limit, float(row.bytes), judge_at_most(row.bytes, limit), row.name, None)
        if (limit := limit_for(evidence.rules.size_ratio, row.name)) is not None:
            ratio = row.bytes / reference if reference else "no pt2 to compare with"
            verdict = judge_at_most(row.bytes, limit * reference) if reference else Verdict.INCONCLUSIVE
            yield GateRow("size_ratio", limit, ratio, verdict, row.name, None)


def by_pair(rows: Iterable[DriftRow]) -> dict[Pair, list[DriftRow]]:
    """Group rows by artifact and runtime."""
    pairs: dict[Pair, list[DriftRow]] = {}
    for row in rows:
        pairs.setdefault((row.artifact, row.runtime), []).append(row)
    return pairs


RULES: tuple[Callable[[_Evidence], Iterator[GateRow]], ...] = (
    _answers, _drift, _verified, _sqnr, _metric, _metric_ends, partial(_per_batch, "latency_ratio", _latency_ratio),
    partial(_per_batch, "latency_p99", _p99), partial(_per_batch, "peak_memory", _peak_memory), _size,
)  # fmt: skip
