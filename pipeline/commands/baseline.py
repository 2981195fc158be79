"""The baseline of a run: an earlier run, whose artifacts are measured beside the new ones, and that it is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...models.artifact import read_artifact
from ...models.errors import BadRequest
from ..drift.metrics.outcomes import SOURCE
from ..measure.bench_stage import Bench, Measurements
from ..measure.servers import Servers
from ..options.request import RunRequest
from ..plan.context import Context
from ..plan.router import TargetResult
from ..plan.run_inputs import RunInputs
from ..result.compare.compare_limits import CompareLimits
from ..result.compare.no_worse import no_worse_rows
from ..result.compare.release_metric import Release
from ..result.compare.run_comparison import compare_runs
from ..result.compare.run_files import read_release
from ..result.compare.side_by_side import SideBySide
from ..result.gate import verdict_of
from ..result.schema import RunResult
from .remeasure import OpenedArtifacts, open_artifacts, pair_up, remeasure


@dataclass(frozen=True)
class Baseline:
    """An earlier run, and how much worse this one may be; without `judges` it is shown and decides nothing."""

    folder: Path
    release: Release
    limits: CompareLimits
    judges: bool
    allow_missing: bool = False  # of artifacts, runtimes and test samples that the baseline had


def read_baseline(request: RunRequest) -> Baseline | None:
    """Read the baseline of a request; None where it names none.
    Raises BadRequest where that is no finished run, or the gate has a rule on a baseline and there is none."""
    rule, text = request.gate.no_worse, request.baseline.run
    if text is None:
        if rule:
            fix = "name a run in [baseline], or with --baseline"
            raise BadRequest("the gate's no_worse holds a run against its baseline, and none is named", fix=fix)
        if request.baseline.allow_missing:
            fix = "name a run in [baseline], or with --baseline"
            raise BadRequest("allow_missing speaks of what a baseline had, and none is named", fix=fix)
        return None
    folder = Path(request.root or ".", text)
    limits = rule if isinstance(rule, CompareLimits) else CompareLimits()
    missing = request.baseline.allow_missing
    return Baseline(folder, read_release(folder), limits, rule is not False, missing)


def open_baseline(context: Context, baseline: Baseline | None, targets: Sequence[TargetResult]) -> OpenedArtifacts:
    """Load the artifacts of the baseline that this run has, too."""
    names = [target.name for target in targets if target.stored]
    if baseline is None or not context.request.bench.enabled or not names:
        return OpenedArtifacts()
    with context.progress.stage("baseline") as stage:
        opened = open_artifacts(context, baseline.folder, baseline.release.run, names)
        stage.note = f"{len(opened.models)} artifacts of {baseline.release.run.id}"
    return opened


def measure_beside(
    context: Context,
    inputs: RunInputs,
    targets: Sequence[TargetResult],
    servers: Servers,
    *,
    opened: OpenedArtifacts,
    limits: CompareLimits,
) -> tuple[SideBySide, Measurements]:
    """Measure the artifacts of the baseline and of this run pair by pair, as the section [bench] has it."""
    stored = {
        target.name: (target.stored, read_artifact(target.stored.folder).signature)
        for target in targets
        if target.stored
    }
    section = context.request.bench
    pairs, left_out = pair_up(opened, stored, section.runtimes)
    bench = Bench(context, inputs.data, servers, inputs.model)
    with context.progress.stage("baseline") as stage:
        measured = remeasure(bench, pairs, left_out, limits.latency, section.budget_s, is_hard=False)
        stage.note = f"{len(pairs)} pairs measured side by side"
    return measured


def judge_baseline(release: Release, baseline: Baseline | None, measured: SideBySide | None) -> RunResult:
    """Return the result with the comparison, the gate's rows on it, and the verdict of all rows."""
    result = release.run
    if baseline is None:
        return result
    missing = baseline.allow_missing
    comparison = compare_runs(baseline.release, release, baseline.limits, measured, allow_missing=missing)
    rows = (*result.gate, *(no_worse_rows(comparison, result) if baseline.judges else ()))
    names = [SOURCE[0], *(row.name for row in result.artifacts)]  # then what is missing
    gate = tuple(sorted(rows, key=lambda row: names.index(row.artifact) if row.artifact in names else len(names)))
    verdict, status = verdict_of(gate, result.artifacts)
    return replace(result, baseline=comparison, gate=gate, verdict=verdict, exit_code=int(status))
