"""What MLflow keeps of a run beside its files: parameters, tags and metrics, read from the result. No mlflow here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ....models.formats import parse_target
from ....models.store import digest_of
from ...drift.metrics.outcomes import SOURCE
from ...result.compare.change_records import FigureKind
from ...result.compare.release_metric import scores_of
from ...result.schema import DriftRow, LatencyRow, RunResult

RUN_TAG, DIGEST_TAG, VERDICT_TAG = "transload.run", "transload.sha256", "transload.verdict"
FORCED_TAG = "transload.forced"  # of a run and of its versions: the verdict in spite of which an alias moved
VERSION_TAG, ARTIFACT_TAG, STATUS_TAG = "transload.version", "transload.artifact", "transload.status"
RUN_FILE = "run.json"
_MOST_PARAM = 500  # letters: what older servers take
_LOGGED = (
    RUN_FILE, "report.html", "report.md", "plan.json", "outcomes.npz", "latency.npz", "baseline-latency.npz",
    "load.npz",
)  # fmt: skip


@dataclass(frozen=True)
class RunFigure:
    """One metric of MLflow; `artifact` is the target that it belongs to, None for one of the whole run."""

    name: str
    value: float
    artifact: str | None = None


def run_params(result: RunResult, model: str) -> dict[str, str]:
    """Return the parameters: the model, what was made and asked, and the machine with its libraries."""
    place = result.environment
    params = {
        "model": model,
        "targets": ", ".join(row.name for row in result.artifacts),
        "runtimes": ", ".join(dict.fromkeys(row.runtime for row in _measured_rows(result))),
        "batches": ", ".join(str(size) for size in sorted({row.batch for row in result.latency})),
        "transload": result.transload_version,
        "machine/cpu": place.cpu,
        "machine/cores": str(place.cores),
        "machine/memory_bytes": str(place.memory_bytes),
        "machine/gpus": ", ".join(place.gpus),
        "machine/platform": place.platform,
        "machine/python": place.python,
        **{f"package/{name}": version for name, version in place.packages.items()},
    }
    return {name: value[:_MOST_PARAM] for name, value in params.items() if value}


def run_tags(result: RunResult, folder: Path) -> dict[str, str]:
    """Return the tags of a run: they say which one it is, and how it ended."""
    return {
        RUN_TAG: result.id,
        DIGEST_TAG: digest_of(folder / RUN_FILE),
        VERDICT_TAG: str(result.verdict),
        VERSION_TAG: result.transload_version,
    }


def run_files(folder: Path) -> tuple[Path, ...]:
    """Return what of a run's folder is logged beside its models: the result, the reports, raw samples and logs."""
    files = [folder / name for name in _LOGGED if (folder / name).is_file()]
    return (*files, *([folder / "logs"] if (folder / "logs").is_dir() else []))


def _measured_rows(result: RunResult) -> list[DriftRow | LatencyRow]:
    return [*result.drift, *result.latency]


def run_figures(result: RunResult) -> list[RunFigure]:
    """Return the metrics of a run, each name once; what has no number is left out.
    A name is `ARTIFACT/RUNTIME/batch-N/FIGURE`, or shorter where a figure has no runtime or batch."""
    figures = [RunFigure("seconds", result.seconds), RunFigure("exit_code", result.exit_code)]
    figures += [
        RunFigure(f"{_slug(row.name)}/bytes", row.bytes, row.name) for row in result.artifacts if row.bytes is not None
    ]
    for row in _measured_rows(result):
        slug = _slug(row.artifact)
        values = _drift_values(row) if isinstance(row, DriftRow) else _latency_values(row)
        figures += [
            RunFigure(f"{slug}/{row.runtime}/batch-{row.batch}/{name}", value, row.artifact)
            for name, value in values
            if value is not None
        ]
    figures += _score_figures(result)
    return list({figure.name: figure for figure in reversed(figures)}.values())[::-1]


def _score_figures(result: RunResult) -> Iterator[RunFigure]:
    """Yield the source's metric, and beside each metric that of the baseline's model and the gain on it."""
    if (source := scores_of(result).get(SOURCE)) is not None:
        yield RunFigure(f"source/metric_{_word(source.metric.name)}", source.value)
    for row in result.baseline.figures if result.baseline else ():
        if row.figure is FigureKind.METRIC and isinstance(row.before, float):
            place = "/".join(filter(None, (_slug(row.artifact), row.runtime)))
            artifact = None if row.artifact == SOURCE[0] else row.artifact
            yield RunFigure(f"{place}/baseline_metric", row.before, artifact)
            if row.change is not None:
                yield RunFigure(f"{place}/baseline_metric_change", row.change, artifact)


def _drift_values(row: DriftRow) -> Iterator[tuple[str, float | None]]:
    yield "sqnr_db", row.sqnr_db
    yield "max_abs", row.max_abs
    if row.metric:
        yield f"metric_{_word(row.metric.name)}", row.metric.candidate
        yield f"metric_{_word(row.metric.name)}_change", row.metric.delta


def _latency_values(row: LatencyRow) -> Iterator[tuple[str, float | None]]:
    for name in ("p50_s", "p99_s", "throughput_per_s", "ratio_to_reference", "peak_rss_bytes"):
        yield name, getattr(row, name)


def _slug(artifact: str) -> str:
    """Return an artifact's name as MLflow takes it; that of the reference is no target."""
    return _word(artifact.replace(":", "-"))


def _word(text: str) -> str:
    """Return a text without the letters that a metric's name may not have; with a digest where some were lost."""
    plain = "".join(letter if letter.isalnum() or letter in "_-. " else "-" for letter in text)
    return plain if plain == text else f"{plain[:80]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def started_ms(result: RunResult) -> int:
    """Return the start of a run in milliseconds since 1970, as MLflow counts."""
    return round(datetime.fromisoformat(result.started_at).timestamp() * 1000)


def run_page(address: str, experiment_id: str, run_id: str) -> str:
    """Return the address of a run's page."""
    return f"{address}/#/experiments/{experiment_id}/runs/{run_id}"


def artifact_slug(artifact: str) -> str:
    """Return a target's name as the name of a model: "tflite-int8" for "tflite:int8"."""
    return parse_target(artifact).slug
