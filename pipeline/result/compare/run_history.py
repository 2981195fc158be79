"""Read runs in the order of time, figure by figure. Which machines are alike: machines.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....models.errors import BadRequest
from ...drift.metrics.outcomes import SOURCE
from ..gate import answered
from ..schema import ArtifactRow, DriftRow, Environment, LatencyRow, RunResult
from .history_records import HistoryPoint, HistoryRun, RunHistory
from .machines import library_differences, machine_differences
from .release_metric import scores_of
from .run_comparison import least_agreement, shown_agreement
from .run_files import read_run

_RUN_FILE = "run.json"


@dataclass(frozen=True)
class _DatedRun:
    """A run, its folder or its page in MLflow, and the key of its machine."""

    place: str
    result: RunResult
    machine: str = ""


def read_history(
    places: Sequence[Path], batch: int = 1, *, elsewhere: Sequence[tuple[str, RunResult]] = ()
) -> RunHistory:
    """Read the runs in these folders, each of which is a run or holds runs; latencies at one batch size.
    `elsewhere`: further runs, each with where it lies. Raises BadRequest where none of them is a finished run."""
    runs, skipped = _read_runs(places, elsewhere)
    if not runs:
        reason = f": {skipped[0]}" if skipped else ""
        raise BadRequest(f"there is no finished run to draw{reason}", fix="name folders under runs/, or runs/ itself")
    machines: dict[str, Environment] = {}
    dated = [_DatedRun(run.place, run.result, _key_of(run.result.environment, machines)) for run in runs]
    rows = tuple(
        HistoryRun(
            run.result.id, run.result.started_at, str(run.result.verdict), run.machine, run.place
        )
        for run in dated
    )  # fmt: skip
    points: list[HistoryPoint] = []
    former: dict[tuple[str, str | None], _DatedRun] = {}
    for run in dated:
        points += _source_points(run, batch)
        for artifact in run.result.artifacts:
            for runtime in _runtimes(run.result, artifact.name):
                key = artifact.name, runtime
                points.append(_point(run, artifact, runtime, batch, former.get(key)))
                former[key] = run
    described = {key: _describe(environment) for key, environment in machines.items()}
    return RunHistory(rows, described, tuple(points), tuple(skipped))


def _read_runs(places: Sequence[Path], elsewhere: Sequence[tuple[str, RunResult]]) -> tuple[list[_DatedRun], list[str]]:
    """Return the runs by time, each once, and the sentences on folders that are none."""
    read: list[_DatedRun] = []
    skipped: list[str] = []
    folders = {os.path.realpath(folder): folder for place in places for folder in _folders(place)}
    for folder in folders.values():
        try:
            read.append(_DatedRun(str(folder), read_run(folder)))
        except BadRequest as error:
            skipped.append(error.what)
    runs: dict[str, _DatedRun] = {}
    for run in (*read, *(_DatedRun(*pair) for pair in elsewhere)):
        known = runs.setdefault(run.result.id, run)
        if known is not run:
            skipped.append(f"{run.place} holds a copy of the run in {known.place}")
    return sorted(runs.values(), key=lambda run: (run.result.started_at, run.result.id)), skipped


def _folders(place: Path) -> list[Path]:
    """Return the folder of a run itself, or the folders in one that holds runs."""
    if not place.is_dir() or (place / _RUN_FILE).exists() or (place / "plan.json").exists():
        return [place]
    inside = sorted(path for path in place.iterdir() if path.is_dir() and not path.name.startswith("."))
    return inside if any((path / _RUN_FILE).exists() for path in inside) else [place]


def _key_of(environment: Environment, machines: dict[str, Environment]) -> str:
    """Return the key of a machine, m1, m2 ...; a new one where it is like none of those before."""
    alike = (key for key, known in machines.items() if not machine_differences(known, environment))
    key = next(alike, f"m{len(machines) + 1}")
    machines.setdefault(key, environment)
    return key


def _describe(environment: Environment) -> str:
    gpus = f", {', '.join(environment.gpus)}" if environment.gpus else ""
    memory = f"{environment.memory_bytes / 1e9:.1f} GB"
    return f"{environment.cpu}, {environment.cores} cores, {memory}{gpus}, {environment.platform}"


def _runtimes(run: RunResult, artifact: str) -> list[str | None]:
    rows: list[DriftRow | LatencyRow] = [*run.drift, *run.latency]
    return list(dict.fromkeys(row.runtime for row in rows if row.artifact == artifact)) or [None]


def _point(
    run: _DatedRun, artifact: ArtifactRow, runtime: str | None, batch: int, former: _DatedRun | None
) -> HistoryPoint:
    result = run.result
    drift = [row for row in result.drift if (row.artifact, row.runtime) == (artifact.name, runtime)]
    worst = min(drift, key=least_agreement, default=None)
    metric = next((row.metric for row in drift if row.metric), None)
    timed = next((row for row in result.latency if _is_timed(row, artifact.name, runtime, batch)), None)
    return HistoryPoint(
        artifact=artifact.name,
        runtime=runtime,
        batch=batch,
        run=result.id,
        status=str(artifact.status),
        drift=shown_agreement(worst) if worst else None,
        metric_name=metric.name if metric else None,
        metric=metric.candidate if metric else None,
        metric_unit=metric.unit if metric else None,
        metric_ci95=metric.ci95 if metric else None,
        metric_change=metric.delta if metric else None,
        p50_s=timed.p50_s if timed else None,
        ratio=timed.ratio_to_reference if timed else None,
        ratio_ci95=timed.ratio_ci95 if timed else None,
        size_bytes=artifact.bytes,
        peak_rss_bytes=timed.peak_rss_bytes if timed else None,
        conditions=f"{timed.device}, {timed.threads} threads, {timed.server or 'in process'}" if timed else "",
        changed=_changed(former, run, runtime),
    )


def _source_points(run: _DatedRun, batch: int) -> list[HistoryPoint]:
    """Return the point of the source that the copies were made from: its own score."""
    score = scores_of(run.result).get(SOURCE)
    if score is None:
        return []
    metric = score.metric
    return [
        HistoryPoint(
            *SOURCE, batch, run.result.id, "source", metric_name=metric.name, metric=score.value,
            metric_unit=metric.unit,
        )
    ]  # fmt: skip


def _is_timed(row: LatencyRow, artifact: str, runtime: str | None, batch: int) -> bool:
    return (row.artifact, row.runtime, row.batch) == (artifact, runtime, batch) and answered(row)


def _changed(former: _DatedRun | None, run: _DatedRun, runtime: str | None) -> tuple[str, ...]:
    """Return how machine and libraries differ from those of the run before that has this artifact in this runtime."""
    if former is None:
        return ()
    before, after = former.result.environment, run.result.environment
    return (*machine_differences(before, after), *library_differences(runtime or "", before, after))
