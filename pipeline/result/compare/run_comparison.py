"""Compare two results, figure by figure. Why so, and what the intervals hold: docs/design/compare.md."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial

from ....models.errors import Exit
from ...drift.metrics.metric_kinds import SHARE
from ...drift.metrics.outcomes import SOURCE
from ..gate import answered
from ..ratio import LEAST_PROCESSES
from ..schema import ArtifactRow, DriftRow, Interval, LatencyRow, MetricRow, RunResult, Status, Verdict
from .change_records import SECONDS, Change, CompareMethod, FigureChange, FigureKind, RunComparison
from .compare_limits import CompareLimits
from .judge import by_sign, difference, judge_difference, judge_ratio, judge_times
from .machines import machine_differences, row_differences
from .presence import describe_test_sets, presence_rows
from .release_metric import Release, compare_scores
from .side_by_side import PairedLatency, SideBySide

_STATUSES = (Status.FAILED, Status.UNVERIFIED, Status.DEGRADED, Status.VERIFIED)  # the worst first
_DRIFTS = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
_ALIKE_SOURCES = 1.25  # times as long: a retrained model on a busy machine; beyond it the model has another shape
_ROUNDING_DB = 120.0  # agreement beyond this is the order of float32 additions

Key = tuple[str, str, int]


def compare_runs(
    before: RunResult | Release,
    after: RunResult | Release,
    limits: CompareLimits | None = None,
    measured: SideBySide | None = None,
    *,
    allow_missing: bool = False,
) -> RunComparison:
    """Compare a run with an earlier one: the source with the old source, each copy with the old copy of its target, and
    what each copy loses on its own source.
    Latencies are compared by each one's ratio to its own reference, and only between like machines. Where the artifacts
    of both were `measured` side by side, latency and memory are of that. What the earlier run had and the later one has
    not counts as worse, unless `allow_missing`."""
    limits = limits or CompareLimits()
    old_release, new_release = (run if isinstance(run, Release) else Release(run) for run in (before, after))
    before, after = old_release.run, new_release.run
    scores = [*compare_scores(old_release, new_release, limits)]
    differences = machine_differences(before.environment, after.environment)
    old, new = ({row.name: row for row in run.artifacts} for run in (before, after))
    was, now = _subjects(before), _subjects(after)
    gone = _missing(was, now)
    rows = [*(() if allow_missing else presence_rows(gone, old_release, new_release)), *_of(SOURCE[0], scores)]
    for name in (name for name in new if name in old):
        is_same_file = old[name].sha256 is not None and old[name].sha256 == new[name].sha256
        rows.append(_compare_status(old[name], new[name]))
        rows += _of(name, scores)
        rows += _compare_drift(name, before, after, limits)
        rows += _compare_metric_drift(name, before, after, limits, is_same_file=is_same_file)
        rows += _compare_size(old[name], new[name], limits)
        if measured and name not in measured.left_out:
            rows += _measured_latency(measured, name, limits)
            rows += _measured_memory(measured, name, limits)
        else:
            rows += _compare_latency(name, before, after, limits, differences)
            rows += _compare_memory(name, before, after, limits, differences)
    notes = _notes(measured, old.keys() & new.keys()) if measured else ()
    return RunComparison(
        before=before.id, after=after.id, differences=differences,
        new=_missing(now, was), gone=gone,
        figures=tuple(rows),
        method=CompareMethod.SIDE_BY_SIDE if measured and measured.rows else CompareMethod.SEPARATE,
        notes=(*filter(None, [describe_test_sets(old_release, new_release)]), *notes),
    )  # fmt: skip


def _of(artifact: str, rows: Iterable[FigureChange]) -> list[FigureChange]:
    return [row for row in rows if row.artifact == artifact]


def _notes(measured: SideBySide, names: Container[str]) -> tuple[str, ...]:
    """Return a sentence for each reason for which artifacts were not measured side by side, and the doubts."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in measured.left_out.items():
        if name in names:
            by_reason.setdefault(reason, []).append(name)
    left_out = (
        f"not measured side by side, so what the runs recorded is compared: {', '.join(names)}: {reason}"
        for reason, names in by_reason.items()
    )
    return (*left_out, *measured.doubts)


def decide(comparison: RunComparison) -> tuple[Verdict, Exit]:
    """Return verdict and exit status: worse before inconclusive before pass. What is not compared decides nothing."""
    if comparison.count(Change.WORSE):
        return Verdict.FAIL, Exit.FAIL
    if comparison.count(Change.INCONCLUSIVE) or comparison.count(Change.NOT_COMPARED) == len(comparison.figures):
        return Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE
    return Verdict.PASS, Exit.PASS


def _subjects(run: RunResult) -> dict[str, None]:
    """Return the names of artifacts, and of artifacts in runtimes, in the run's order."""
    names = [row.name for row in run.artifacts]
    rows: list[DriftRow | LatencyRow] = [*run.drift, *run.latency]
    return dict.fromkeys([*names, *(f"{row.artifact} in {row.runtime}" for row in rows if row.artifact in names)])


def _missing(names: Iterable[str], known: Container[str]) -> tuple[str, ...]:
    """Return the names that are not known; of an artifact that is not its own name alone."""
    absent = [name for name in names if name not in known]
    return tuple(name for name in absent if (artifact := name.partition(" in ")[0]) == name or artifact in known)


def _compare_status(old: ArtifactRow, new: ArtifactRow) -> FigureChange:
    step = _STATUSES.index(new.status) - _STATUSES.index(old.status)
    return FigureChange(
        old.name, None, None, FigureKind.STATUS, str(old.status), str(new.status), None, None, None, by_sign(-step),
        f"the artifact was {old.status} and is {new.status}",
    )  # fmt: skip


def _compare_drift(name: str, before: RunResult, after: RunResult, limits: CompareLimits) -> Iterator[FigureChange]:
    """Yield a row for each runtime: its least SQNR at the batch sizes that both runs asked."""
    for runtime, pairs in _by_runtime(_common_drift(name, before, after)).items():
        old, new = (min((pair[side] for pair in pairs), key=least_agreement) for side in (0, 1))
        row = partial(FigureChange, name, runtime, None, FigureKind.DRIFT, shown_agreement(old), shown_agreement(new))
        was, now = (max(pair[0].samples for pair in pairs), max(pair[1].samples for pair in pairs))
        step = min(_DRIFTS.index(pair[1].verdict) for pair in pairs) - min(_DRIFTS.index(p[0].verdict) for p in pairs)
        gain = min(least_agreement(new), _ROUNDING_DB) - min(least_agreement(old), _ROUNDING_DB)
        change = gain if math.isfinite(gain) else None
        if step:
            yield row(change, None, limits.drift_db, by_sign(-step), "its verdict against its tolerance has changed")
        elif least_agreement(old) == least_agreement(new):
            yield row(0.0, None, limits.drift_db, Change.SAME, "both agree with their references equally")
        elif was != now:
            reason = f"the test sets have {was} and {now} samples: compare runs on one test set"
            yield row(change, None, limits.drift_db, Change.INCONCLUSIVE, reason)
        else:
            verdict = Change.SAME if abs(gain) <= limits.drift_db else by_sign(-gain)
            reason = f"the least agreement with the reference changed by {gain:+.1f} dB, limit {limits.drift_db:g} dB"
            yield row(change, None, limits.drift_db, verdict, f"{reason}; beyond 120 dB is rounding")


def _common_drift(name: str, before: RunResult, after: RunResult) -> list[tuple[DriftRow, DriftRow]]:
    """Return the rows of an artifact that both runs have. The full test set is one batch, whatever its size."""
    old, new = (_by_batch([row for row in run.drift if row.artifact == name]) for run in (before, after))
    return [(old[key], new[key]) for key in new if key in old]


def _by_batch(rows: Sequence[DriftRow]) -> dict[Key, DriftRow]:
    """Return rows by artifact, runtime and batch; the largest batch, which asks the full test set, as batch 0."""
    largest: dict[str, int] = {}
    for row in rows:
        largest[row.runtime] = max(row.batch, largest.get(row.runtime, 0))
    return {(row.artifact, row.runtime, 0 if row.batch == largest[row.runtime] else row.batch): row for row in rows}


def _by_runtime(pairs: Sequence[tuple[DriftRow, DriftRow]]) -> dict[str, list[tuple[DriftRow, DriftRow]]]:
    groups: dict[str, list[tuple[DriftRow, DriftRow]]] = {}
    for pair in pairs:
        groups.setdefault(pair[0].runtime, []).append(pair)
    return groups


def least_agreement(row: DriftRow) -> float:
    """Return the SQNR in dB; inf of equal answers, -inf of none, of other shapes, and where NaN or infinities are
    lost."""
    if not answered(row) or row.mismatch is not None or row.non_finite:
        return -math.inf
    return math.inf if row.sqnr_db is None else row.sqnr_db


def shown_agreement(row: DriftRow) -> float | str:
    """Return the SQNR in dB, or why there is none: "identical", or "no numbers"."""
    value = least_agreement(row)
    return value if math.isfinite(value) else "identical" if value > 0 else "no numbers"


def _compare_metric_drift(
    name: str, before: RunResult, after: RunResult, limits: CompareLimits, *, is_same_file: bool
) -> Iterator[FigureChange]:
    """Yield a row for each runtime: what the copy gains on its own model, which was scored on the same samples."""
    for old_row, new_row in _common_drift(name, before, after):
        old, new = old_row.metric, new_row.metric
        if old is None or new is None:
            continue
        is_gain = new.higher_is_better
        limit, words = limits.loss_limit(old.reference, _unit(new), higher_is_better=is_gain)
        row = partial(
            FigureChange, name, new_row.runtime, None, FigureKind.METRIC_DRIFT, old.delta, new.delta, unit=_unit(new)
        )
        if old.name != new.name:
            yield row(None, None, limit, Change.NOT_COMPARED, f"the metric was {old.name} and is {new.name}")
            continue
        change, interval = difference((old.delta, old.ci95), (new.delta, new.ci95))
        verdict = judge_difference(change, interval, limit, higher_is_better=is_gain)
        reason = f"{new.name}: how much the copy departs from its own source's score, against the old copy's; {words}"
        if is_same_file and old.candidate == new.candidate and old.reference == new.reference:
            verdict, reason = Change.SAME, "the file is the same, and so is its score"
        yield row(change, interval, limit, verdict, reason)


def _unit(metric: MetricRow) -> str:
    """Return a metric's unit; files from before units had shares."""
    return SHARE if metric.unit is None else metric.unit


def _compare_size(old: ArtifactRow, new: ArtifactRow, limits: CompareLimits) -> Iterator[FigureChange]:
    if old.bytes and new.bytes is not None:
        ratio = new.bytes / old.bytes
        reason = f"the file has {ratio:.1%} of its former size, limit {limits.size:.0%}"
        yield FigureChange(
            old.name, None, None, FigureKind.SIZE, float(old.bytes), float(new.bytes), ratio, None, limits.size,
            judge_ratio(ratio, limits.size), reason,
        )  # fmt: skip


def _common_latency(name: str, before: RunResult, after: RunResult) -> list[tuple[LatencyRow, LatencyRow]]:
    old, new = (
        {(row.artifact, row.runtime, row.batch): row for row in run.latency if row.artifact == name and answered(row)}
        for run in (before, after)
    )
    return [(old[key], new[key]) for key in new if key in old]


def _compare_latency(
    name: str, before: RunResult, after: RunResult, limits: CompareLimits, differences: Sequence[str]
) -> Iterator[FigureChange]:
    """Yield a row for each runtime and batch size: the ratio of the ratios to each run's own reference."""
    for old, new in _common_latency(name, before, after):
        was, now = old.ratio_to_reference, new.ratio_to_reference
        row = partial(FigureChange, name, new.runtime, new.batch, FigureKind.LATENCY, was, now)
        unlike = (*differences, *row_differences(old, new, before.environment, after.environment))
        if unlike:
            yield row(None, None, limits.latency, Change.NOT_COMPARED, f"unlike conditions: {'; '.join(unlike)}")
        elif not was or not now:
            reason = "a run has no reference of this kind to hold it against"
            yield row(None, None, limits.latency, Change.NOT_COMPARED, reason)
        elif old.ratio_ci95 is None or new.ratio_ci95 is None or min(old.processes, new.processes) < LEAST_PROCESSES:
            reason = f"it was measured in fewer than {LEAST_PROCESSES} processes, which gives no interval"
            yield row(now / was, None, limits.latency, Change.INCONCLUSIVE, reason)
        elif moved := _moved_source(old, new, before, after):
            yield row(now / was, None, limits.latency, Change.INCONCLUSIVE, moved)
        else:
            change, interval = difference(_logs(was, old.ratio_ci95), _logs(now, new.ratio_ci95))
            verdict = judge_difference(change, interval, math.log1p(limits.latency), higher_is_better=False)
            ratio, ci95 = math.exp(change), (math.exp(interval[0]), math.exp(interval[1]))
            reason = "from two runs at different times, by each one's ratio to its own reference"
            yield row(ratio, ci95, limits.latency, verdict, reason)


def _moved_source(old: LatencyRow, new: LatencyRow, before: RunResult, after: RunResult) -> str | None:
    """Say that ratios to two sources do not compare, where another source takes another time; None where they do."""
    if before.source is None or after.source is None or before.source.sha256 == after.source.sha256:
        return None
    sources_s = [row.p50_s / row.ratio_to_reference for row in (old, new) if row.p50_s and row.ratio_to_reference]
    change = sources_s[1] / sources_s[0] if len(sources_s) == 2 else 1.0
    if 1 / _ALIKE_SOURCES <= change <= _ALIKE_SOURCES:
        return None
    return (
        f"the new source takes {change:.2f} times as long as the old one, so ratios to them do not compare: "
        "measure both side by side with --remeasure"
    )


def _compare_memory(
    name: str, before: RunResult, after: RunResult, limits: CompareLimits, differences: Sequence[str]
) -> Iterator[FigureChange]:
    """Yield a row for each runtime: the largest peak of the process that answered."""
    peaks: dict[str, tuple[int, int, tuple[str, ...]]] = {}
    for old, new in _common_latency(name, before, after):
        if old.peak_rss_bytes and new.peak_rss_bytes:
            unlike = (*differences, *row_differences(old, new, before.environment, after.environment))
            was, now, _ = peaks.get(new.runtime, (0, 0, ()))
            peaks[new.runtime] = max(was, old.peak_rss_bytes), max(now, new.peak_rss_bytes), unlike
    for runtime, (was, now, unlike) in peaks.items():
        ratio = now / was
        verdict = Change.NOT_COMPARED if unlike else judge_ratio(ratio, limits.memory)
        reason = f"the peak is {ratio:.1%} of the former one, limit {limits.memory:.0%}"
        if unlike:
            reason = f"unlike conditions: {'; '.join(unlike)}"
        yield FigureChange(
            name, runtime, None, FigureKind.MEMORY, float(was), float(now), None if unlike else ratio, None,
            limits.memory, verdict, reason,
        )  # fmt: skip


def _measured_latency(measured: SideBySide, name: str, limits: CompareLimits) -> Iterator[FigureChange]:
    """Yield a row for each runtime and batch size: the ratio of both artifacts' times in the same rounds."""
    for pair in measured.of(name):
        row = partial(
            FigureChange, name, pair.runtime, pair.batch, FigureKind.LATENCY, pair.before_s, pair.after_s, unit=SECONDS
        )
        if pair.ratio is None:
            reason = pair.lost or _why_time(pair, measured)
            yield row(None, None, limits.latency, Change.INCONCLUSIVE, reason)
        else:
            verdict = judge_times(pair.ratio, limits.latency)
            reason = _why_time(pair, measured, is_open=verdict is Change.INCONCLUSIVE)
            decided_by = pair.ratio.verdict_interval
            yield row(pair.ratio.center, pair.ratio.ci95, limits.latency, verdict, reason, verdict_interval=decided_by)


def _why_time(pair: PairedLatency, measured: SideBySide, *, is_open: bool = True) -> str:
    sets = f"{pair.processes} set{'s' if pair.processes != 1 else ''} of processes"
    if pair.processes >= LEAST_PROCESSES:
        reason = f"measured side by side in this run, in {sets}"
        return (
            f"{reason}: the 99.875 % interval reaches over the limit, so a longer budget is needed"
            if is_open
            else reason
        )
    need = f": all pairs need about {measured.needed_s:.0f} s (--budget)" if measured.needed_s else ""
    return f"the budget ended after {sets}, and an interval takes {LEAST_PROCESSES}{need}"


def _measured_memory(measured: SideBySide, name: str, limits: CompareLimits) -> Iterator[FigureChange]:
    """Yield a row for each runtime: the largest peak of the processes that answered, of both in this run."""
    for pair in {pair.runtime: pair for pair in measured.of(name)}.values():
        was, now = pair.before_peak_bytes, pair.after_peak_bytes
        if was and now:
            reason = (
                f"the peak is {now / was:.1%} of the former one, both measured in this run, limit {limits.memory:.0%}"
            )
            yield FigureChange(
                name, pair.runtime, None, FigureKind.MEMORY, float(was), float(now), now / was, None, limits.memory,
                judge_ratio(now / was, limits.memory), reason,
            )  # fmt: skip


def _logs(ratio: float, interval: Interval) -> tuple[float, Interval]:
    low, high = (math.log(max(end, 1e-12)) for end in interval)
    return math.log(ratio), (low, high)
