"""The artifacts of a former run, measured beside those of a later one: `compare --remeasure` and `run --baseline`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ...models.errors import BadRequest, TransloadError
from ...models.signature import Signature
from ...models.store import Stored, digest_of
from ...serving.runtimes.runtime_table import Runtime, runtimes_for
from ..measure.bench.comparison import compare
from ..measure.bench.rounds import Series
from ..measure.bench_stage import Bench, Measurements
from ..measure.bench_subject import BenchSubject
from ..measure.collected_series import BenchGoal
from ..plan.context import Context
from ..plan.loaded_model import LoadedModel
from ..plan.model_argument import candidate_request
from ..plan.run_inputs import load_model
from ..result.compare.change_records import Change
from ..result.compare.judge import judge_times
from ..result.compare.side_by_side import PairedLatency, SideBySide
from ..result.ratio import LEAST_PROCESSES, Ratio
from ..result.schema import ArtifactRow, LatencyRow, RunResult
from .candidates import has_same_inputs

BEFORE, AFTER = "before", "after"


@dataclass(frozen=True)
class OpenedArtifacts:
    """Artifacts of a run that are in the store now, by name, and why others are not."""

    models: Mapping[str, LoadedModel] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)  # a sentence for each


@dataclass(frozen=True)
class ArtifactPair:
    """An artifact of both runs, in a runtime that takes both."""

    name: str
    runtime: Runtime
    before: Stored
    after: Stored

    def subject(self, side: str) -> BenchSubject:
        """Return the artifact of one run, to be measured."""
        stored = self.before if side == BEFORE else self.after
        return BenchSubject((f"{side}/{self.name}", self.runtime.name), stored, self.runtime)


def open_artifacts(context: Context, folder: Path, result: RunResult, names: Sequence[str]) -> OpenedArtifacts:
    """Load these artifacts of the run in `folder` into the store."""
    models: dict[str, LoadedModel] = {}
    left_out: dict[str, str] = {}
    for row in result.artifacts:
        if row.name in names:
            try:
                models[row.name] = _open(context, folder, row)
            except TransloadError as error:
                left_out[row.name] = error.what
    return OpenedArtifacts(models, left_out)


def _open(context: Context, folder: Path, row: ArtifactRow) -> LoadedModel:
    """Load an artifact of a run. Raises TransloadError where it is not there, or not what the run has verified."""
    run = folder.resolve().name
    path = folder / row.path if row.path else None
    if path is None:
        raise BadRequest(f"the run {run} made none", fix="see its report")
    if not path.exists():
        raise BadRequest(f"the store no longer has it for the run {run}", fix="do that run again")
    if digest_of(path) != row.sha256:
        raise BadRequest(f"it has changed since the run {run}", fix="do that run again")
    return load_model(context, candidate_request(str(path.parent), ()))


def pair_up(
    before: OpenedArtifacts, after: Mapping[str, tuple[Stored, Signature]], runtimes: Sequence[str]
) -> tuple[list[ArtifactPair], dict[str, str]]:
    """Return the pairs to measure, and why artifacts of `after` have none. Only those in both runs are looked at."""
    pairs: list[ArtifactPair] = []
    left_out = {name: reason for name, reason in before.left_out.items() if name in after}
    for name, (stored, signature) in after.items():
        old = before.models.get(name)
        if old is None or old.start is None:
            continue
        if not has_same_inputs(old.model.signature, signature):
            left_out[name] = "it takes other inputs than before"
            continue
        fitting = [runtime for runtime in runtimes_for(old.start.format, old.flex) if runtime.name in runtimes]
        pairs += [ArtifactPair(name, runtime, old.stored, stored) for runtime in fitting]
    return pairs, left_out


def remeasure(
    bench: Bench,
    pairs: Sequence[ArtifactPair],
    left_out: Mapping[str, str],
    limit: float,
    budget_s: float,
    *,
    is_hard: bool,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[SideBySide, Measurements]:
    """Measure pair by pair, the two of a pair in the same rounds, in one set of processes after the other, until it is
    better, worse or the same by `limit`, or its part of the budget is spent. What a pair leaves of its part goes to
    those after it. A pair has at least `processes` sets of the request, unless `is_hard`: then the budget ends all."""
    start = clock()
    rows: list[PairedLatency] = []
    parts: list[Measurements] = []
    for at, pair in enumerate(pairs):
        left_s = budget_s - (clock() - start)
        if is_hard and parts and left_s <= 0:
            break
        both = [pair.subject(side) for side in (BEFORE, AFTER)]
        references = {subject.pair: both[0].pair for subject in both}
        most_s, part_s = left_s if is_hard else math.inf, max(0.0, left_s) / (len(pairs) - at)
        goal = BenchGoal(references, partial(_is_settled, limit), part_s, most_s)
        parts.append(bench.measure(both, goal))
        rows += _paired(pair, parts[-1], limit)
    sets = sum(max(len(series.processes) for series in part.series) for part in parts)
    need_s = (clock() - start) / sets * LEAST_PROCESSES * len(pairs) if sets else None
    rows += [_not_measured(pair, batch) for pair in pairs[len(parts) :] for batch in _batches(parts[0])]
    doubts = tuple(dict.fromkeys(part.note for part in parts if part.note))
    measured = Measurements(
        tuple(row for part in parts for row in part.rows), tuple(series for part in parts for series in part.series)
    )
    return SideBySide(tuple(rows), left_out, need_s, doubts), measured


def _batches(measured: Measurements) -> list[int]:
    return list(dict.fromkeys(series.batch for series in measured.series))


def _not_measured(pair: ArtifactPair, batch: int) -> PairedLatency:
    return PairedLatency(pair.name, pair.runtime.name, batch, None, None, None, 0)


def _is_settled(limit: float, ratio: Ratio) -> bool:
    return judge_times(ratio, limit) is not Change.INCONCLUSIVE


def _paired(pair: ArtifactPair, measured: Measurements, limit: float) -> list[PairedLatency]:
    """Return a record of the pair for each batch size."""
    series = {(entry.pair, entry.batch): entry for entry in measured.series}
    rows = {((row.artifact, row.runtime), row.batch): row for row in measured.rows}
    before, after = (pair.subject(side).pair for side in (BEFORE, AFTER))
    return [
        _paired_at(
            pair, (series[before, batch], series[after, batch]), (rows[before, batch], rows[after, batch]), limit
        )
        for batch in _batches(measured)
    ]


def _paired_at(
    pair: ArtifactPair, series: tuple[Series, Series], rows: tuple[LatencyRow, LatencyRow], limit: float
) -> PairedLatency:
    old, new = series
    lost = "; ".join(
        f"the artifact {side} gave no time: {entry.lost}" for side, entry in ((BEFORE, old), (AFTER, new)) if entry.lost
    )
    return PairedLatency(
        artifact=pair.name,
        runtime=pair.runtime.name,
        batch=new.batch,
        before_s=rows[0].p50_s,
        after_s=rows[1].p50_s,
        ratio=None if lost else compare(new, old, same_within=limit),
        processes=len(old.processes.keys() & new.processes.keys()),
        before_peak_bytes=None if lost else rows[0].peak_rss_bytes,
        after_peak_bytes=None if lost else rows[1].peak_rss_bytes,
        lost=lost or None,
    )
