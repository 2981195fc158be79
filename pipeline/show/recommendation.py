"""Which copy to release under the user's constraint, and why: pure functions from rows to a record.

Only copies that are verified, pass every rule of the gate and were compared in their runtime can be chosen. Copies are
compared by the time of a sample: the ratio to the reference with its 95 % interval, times the reference's p50, over the
batch. Copies whose intervals overlap are taken as equally fast; then the smaller drift wins, then the smaller file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from ..drift.metrics.equivalence import loss_interval, samples_needed
from ..drift.metrics.metric_kinds import SHARE
from ..drift.metrics.metric_text import format_loss
from ..drift.metrics.outcomes import SOURCE
from ..result.doubt_kinds import DoubtKind
from ..result.gate import answered
from ..result.ratio import Comparison
from ..result.schema import (
    ArtifactRow,
    ChoiceRow,
    DriftRow,
    GateRow,
    LatencyRow,
    Recommendation,
    RunnerUpRow,
    RunResult,
    Status,
    Verdict,
)
from . import units
from .doubt_view import split_doubts

_ALIKE_DB = 6.0  # drifts in one step of this are alike: a factor of two
_MISLEADING = (DoubtKind.ANSWERS, DoubtKind.THROTTLED, DoubtKind.OTHER_LOAD, DoubtKind.OVERSUBSCRIBED, DoubtKind.DRIFT)


@dataclass(frozen=True)
class ReleaseConstraint:
    """What the user asks of a release; None: nothing."""

    latency_bound_s: float | None = None
    metric_loss_points: float | None = None
    price_per_hour: float | None = None


@dataclass(frozen=True)
class _Place:
    """A way of being asked. Latencies of two places are not compared."""

    where: str
    device: str
    threads: int


@dataclass(frozen=True)
class _Candidate:
    """A copy in a runtime at a batch size that may be released."""

    artifact: ArtifactRow
    row: LatencyRow
    sample_s: float  # time of a sample
    interval_s: tuple[float, float] | None  # 95 %; None: too few processes
    sqnr_db: float  # the least in this runtime; inf: identical

    @property
    def name(self) -> str:
        return units.where(self.row)

    def as_fast_as(self, other: _Candidate) -> bool:
        """Return whether the samples do not tell the two apart."""
        ours, theirs = self.interval_s or (self.sample_s,) * 2, other.interval_s or (other.sample_s,) * 2
        return ours[0] <= theirs[1] and theirs[0] <= ours[1]


def recommend(result: RunResult, constraint: ReleaseConstraint) -> Recommendation | None:
    """Return what to release in process and behind each protocol; None of a run that timed no copy.
    With a latency bound the most samples a second count, over all batch sizes that keep it; without, the time of a call
    at the smallest batch size."""
    known = {row.name for row in result.artifacts}
    places: dict[_Place, list[LatencyRow]] = {}
    for row in result.latency:
        if answered(row) and row.artifact in known:
            places.setdefault(_place_of(row), []).append(row)
    choices = tuple(_choose(result, place, rows, constraint) for place, rows in places.items())
    return Recommendation(**asdict(constraint), choices=choices) if choices else None


def cost_per_million(price_per_hour: float | None, throughput_per_s: float | None) -> float | None:
    """Return what a million samples cost at this throughput; None without a price or a throughput."""
    if price_per_hour is None or not throughput_per_s:
        return None
    return price_per_hour / (throughput_per_s * 3600) * 1e6


def _place_of(row: LatencyRow) -> _Place:
    return _Place(f"served by {row.runtime}" if row.server else "in process", row.device, row.threads)


def _choose(result: RunResult, place: _Place, rows: Sequence[LatencyRow], constraint: ReleaseConstraint) -> ChoiceRow:
    least = min(row.batch for row in rows)
    eligible = rows if constraint.latency_bound_s is not None else [row for row in rows if row.batch == least]
    candidates: list[_Candidate] = []
    refused: dict[tuple[str, str], tuple[LatencyRow, str]] = {}
    for row in eligible:
        reason = _refusal(result, row, constraint) or _over_bound(row, constraint.latency_bound_s)
        if reason is None:
            candidates.append(_candidate(result, row))
        else:
            refused.setdefault((row.artifact, row.runtime), (row, reason))
    for candidate in candidates:
        refused.pop((candidate.row.artifact, candidate.row.runtime), None)
    refusals = tuple(RunnerUpRow(row.artifact, row.runtime, None, reason) for row, reason in refused.values())
    if not candidates:
        reason = _why_none([row for row, _ in refused.values()], refusals, constraint)
        return ChoiceRow(**asdict(place), artifact=None, runtime=None, batch=None, reason=reason, settled=False,
                         runners_up=refusals)  # fmt: skip
    chosen, ties = _best(candidates)
    pairs = {(candidate.row.artifact, candidate.row.runtime) for candidate in candidates}
    row = chosen.row
    return ChoiceRow(
        **asdict(place),
        artifact=row.artifact,
        runtime=row.runtime,
        batch=row.batch,
        reason=_reason(result, chosen, ties, len(pairs), constraint),
        settled=not ties and chosen.interval_s is not None and row.comparison is not Comparison.INCONCLUSIVE,
        remarks=tuple(_remarks(result, chosen, ties)),
        p50_s=row.p50_s,
        p99_most_s=row.p99_ci95[1] if row.p99_ci95 else None,
        cost_per_million=cost_per_million(constraint.price_per_hour, row.throughput_per_s),
        runners_up=(*_runners_up(chosen, candidates), *refusals),
    )


def _refusal(result: RunResult, row: LatencyRow, constraint: ReleaseConstraint) -> str | None:
    """Return why a copy must not be released in this runtime, whatever its speed."""
    artifact = next(entry for entry in result.artifacts if entry.name == row.artifact)
    rules = [
        rule
        for rule in result.gate
        if rule.artifact in (row.artifact, SOURCE[0]) and rule.runtime in (None, row.runtime)
    ]
    if reason := _worst_reason(artifact.status, rules):
        return reason
    drift = _drift_of(result, row)
    if not drift:
        return f"its answers were not compared in {units.plain(row.runtime)}"
    if any(compared.verdict is not Verdict.PASS for compared in drift):
        return "its answers do not keep their tolerance"
    return _over_loss(drift, constraint.metric_loss_points)


def _worst_reason(status: Status, rules: Sequence[GateRow]) -> str | None:
    """Return the worst that the status and the gate say against a copy: what failed before what is open."""
    failed, undecided = (
        [rule for rule in rules if rule.verdict is verdict] for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)
    )
    if status is Status.FAILED or (status is not Status.VERIFIED and not failed):
        return f"it is {status}"
    if not (failed or undecided):
        return None
    return f"{'the gate fails it' if failed else 'the gate cannot decide'}: {units.sentence([*failed, *undecided][0])}"


def _over_loss(drift: Sequence[DriftRow], points: float | None) -> str | None:
    """Return how a copy may lose more than is allowed. A copy whose numbers are held to the model's noise floor loses
    what was measured; of one that is judged by the metric the upper end of the interval counts."""
    if points is None:
        return None
    measured = [(row, row.metric) for row in drift if row.metric is not None]
    if not measured:
        return "its loss of the task's metric was not measured"
    for row, metric in measured:
        unit, name, facts = units.unit_of(metric), units.plain(metric.name), asdict(metric)
        allowed = points / 100 if unit == SHARE else points
        _, loss, most = loss_interval(facts)
        limit = f"and {format_loss(allowed, unit)} are allowed"
        if loss > allowed:
            return f"it loses {format_loss(loss, unit)} of {name}, {limit}"
        if most > allowed and row.tolerance.sqnr_db is None:
            count = samples_needed(row.samples, facts, allowed, alike=metric.reference == metric.candidate)
            decides = f"; about {count:,} samples would decide it" if count else ""
            return f"it may lose {format_loss(most, unit)} of {name}, {limit}{decides}"
    return None


def _over_bound(row: LatencyRow, bound_s: float | None) -> str | None:
    if bound_s is None:
        return None
    if row.p99_ci95 is None:
        return f"its p99 is not bounded by {row.samples} calls: measure longer (--budget)"
    most_s = row.p99_ci95[1]
    return None if most_s <= bound_s else f"its p99 may be {units.duration(most_s)} at batch {row.batch}"


def _drift_of(result: RunResult, row: LatencyRow) -> list[DriftRow]:
    return [
        compared
        for compared in result.drift
        if (compared.artifact, compared.runtime) == (row.artifact, row.runtime) and answered(compared)
    ]


def _candidate(result: RunResult, row: LatencyRow) -> _Candidate:
    artifact = next(entry for entry in result.artifacts if entry.name == row.artifact)
    noisy = [compared.sqnr_db for compared in _drift_of(result, row) if compared.sqnr_db is not None]
    reference_s = next(
        (
            other.p50_s
            for other in result.latency
            if other.batch == row.batch and row.reference == f"{other.artifact} in {other.runtime}"
        ),
        None,
    )
    sample_s, interval_s = (row.p50_s or 0.0) / row.batch, None
    if reference_s and row.ratio_to_reference is not None:
        scale = reference_s / row.batch
        sample_s = row.ratio_to_reference * scale
        interval_s = (row.ratio_ci95[0] * scale, row.ratio_ci95[1] * scale) if row.ratio_ci95 else None
    return _Candidate(artifact, row, sample_s, interval_s, min(noisy, default=math.inf))


def _best(candidates: Sequence[_Candidate]) -> tuple[_Candidate, list[_Candidate]]:
    """Return the chosen one, and those that are as fast as far as the samples tell.
    Without an interval nothing is told apart, and the fastest by its median is taken."""
    fastest = min(candidates, key=lambda candidate: candidate.sample_s)
    if fastest.interval_s is None:
        return fastest, []
    alike = [candidate for candidate in candidates if candidate.as_fast_as(fastest)]
    chosen = min(alike, key=_preference)
    return chosen, [candidate for candidate in alike if candidate.name != chosen.name]


def _preference(candidate: _Candidate) -> tuple[float, int, float]:
    """Order copies that are as fast: the smaller drift first, then the smaller file, then the shorter time."""
    return -_drift_step(candidate), candidate.artifact.bytes or 0, candidate.sample_s


def _drift_step(candidate: _Candidate) -> float:
    return candidate.sqnr_db if math.isinf(candidate.sqnr_db) else round(candidate.sqnr_db / _ALIKE_DB)


def _reason(
    result: RunResult,
    chosen: _Candidate,
    ties: Sequence[_Candidate],
    count: int,
    constraint: ReleaseConstraint,
) -> str:
    place = f"{chosen.name} at batch {chosen.row.batch}"
    parts = [_rank(chosen, ties, count, constraint), _against_reference(chosen.row), _loss(result, chosen)]
    return f"{place}: {', '.join(part for part in parts if part)}"


def _rank(chosen: _Candidate, ties: Sequence[_Candidate], count: int, constraint: ReleaseConstraint) -> str:
    bound_s, interval = constraint.latency_bound_s, chosen.row.p99_ci95
    most = f" (p99 at most {units.duration(interval[1])})" if interval is not None else ""
    if count == 1:
        keeps = "" if bound_s is None else f" that keeps {units.duration(bound_s)}"
        return f"the only verified copy{keeps}{most}"
    keeping = "verified" if bound_s is None else f"verified that keep {units.duration(bound_s)}"
    if ties:
        return f"{_edge(chosen, ties)} of the {len({tie.name for tie in ties}) + 1} fastest, of {count} {keeping}{most}"
    return f"{'fastest' if chosen.interval_s else 'fastest by its median'} of {count} {keeping}{most}"


def _edge(chosen: _Candidate, ties: Sequence[_Candidate]) -> str:
    """Say what speaks for the chosen one among those that are as fast."""
    if all(_drift_step(chosen) > _drift_step(tie) for tie in ties):
        return "nearest to the model"
    if all((chosen.artifact.bytes or 0) < (tie.artifact.bytes or 0) for tie in ties):
        return "smallest"
    return "first by drift, then size,"


def _remarks(result: RunResult, chosen: _Candidate, ties: Sequence[_Candidate]) -> Iterator[str]:
    """Yield what is not settled, and the weightiest doubt of its own that its speed is wrong."""
    row = chosen.row
    if ties:
        names = ", ".join(dict.fromkeys(tie.name for tie in ties))
        yield f"the samples do not tell it apart from {names}"
    elif chosen.interval_s is None:
        yield "too few processes to tell it apart from the others"
    if row.comparison is Comparison.INCONCLUSIVE:
        yield _unsettled(row)
    doubts = (doubt for doubt in split_doubts(result.latency).rows if doubt.kind in _MISLEADING)
    yield from [f"in doubt: {text}" for doubt in doubts for text, other in doubt.told if other is row][:1]


def _unsettled(row: LatencyRow) -> str:
    """Say that a ratio is not settled, with the interval by which it is not."""
    ratio = f"{units.ratio(row.ratio_to_reference)} {units.deciding_interval(row)}".strip()
    ratio += " at 99.875 %" if row.comparison_interval else ""
    after = f" after {row.processes} processes" if row.processes else ""
    words = f"whether it is faster than {units.plain(row.reference or 'the reference')} is not settled{after}"
    return f"{words} ({ratio}): measure longer (--budget)"


def _against_reference(row: LatencyRow) -> str:
    if row.comparison in (None, Comparison.INCONCLUSIVE):
        return ""
    ratio, reference = units.ratio(row.ratio_to_reference), units.plain(row.reference or "the reference")
    if row.comparison is Comparison.SAME:
        return f"as fast as {reference}"
    return f"{row.comparison} than {reference} ({ratio})"


def _loss(result: RunResult, chosen: _Candidate) -> str:
    metrics = [row.metric for row in _drift_of(result, chosen.row) if row.metric is not None]
    if not metrics:
        return "identical to the model" if math.isinf(chosen.sqnr_db) else f"{units.decibel(chosen.sqnr_db)} from it"
    worst = max(metrics, key=lambda metric: loss_interval(asdict(metric))[2])
    low, loss, most = loss_interval(asdict(worst))
    if low == loss == most == 0:
        return f"loses nothing of {units.plain(worst.name)}"
    return f"{units.plain(worst.name)} {units.change(worst)} {units.change_interval(worst)}"


def _runners_up(chosen: _Candidate, candidates: Sequence[_Candidate]) -> Iterator[RunnerUpRow]:
    """Yield each other copy once, at its best batch size, the fastest first."""
    seen = {(chosen.row.artifact, chosen.row.runtime)}
    for candidate in sorted(candidates, key=lambda candidate: candidate.sample_s):
        pair = (candidate.row.artifact, candidate.row.runtime)
        if pair not in seen:
            seen.add(pair)
            yield RunnerUpRow(*pair, candidate.row.batch, _why_not(candidate, chosen))


def _why_not(candidate: _Candidate, chosen: _Candidate) -> str:
    if candidate.interval_s is None or chosen.interval_s is None or not candidate.as_fast_as(chosen):
        times = candidate.sample_s / max(chosen.sample_s, 1e-12)
        return f"a sample takes {units.ratio(times)} the time"
    if _drift_step(candidate) < _drift_step(chosen):
        return f"as fast, and further from the model ({units.decibel(candidate.sqnr_db)})"
    if (candidate.artifact.bytes or 0) > (chosen.artifact.bytes or 0):
        return f"as fast, and larger ({units.size(candidate.artifact.bytes)})"
    return "as fast as far as the samples tell, and slower by the median"


def _why_none(rows: Sequence[LatencyRow], refusals: Sequence[RunnerUpRow], constraint: ReleaseConstraint) -> str:
    """Say why nothing can be released: of what only the bound refuses the nearest, else the first reason."""
    late = [
        (row.p99_ci95[1], refusal)
        for row, refusal in zip(rows, refusals, strict=True)
        if row.p99_ci95 and refusal.reason == _over_bound(row, constraint.latency_bound_s)
    ]
    nearest = min(late, key=lambda pair: pair[0])[1] if late else refusals[0]
    kept = "no verified copy keeps the bound" if late else f"no copy of {len(refusals)} may be released"
    return f"none, because {kept}: {units.plain(nearest.artifact)} in {units.plain(nearest.runtime)}: {nearest.reason}"
