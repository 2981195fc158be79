"""`transload run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..ci.ci_files import ci_files
from . import options
from .completion_values import complete_models

if TYPE_CHECKING:
    from ..commands.run import FinishedRun

_StartWeights = Annotated[
    Path | None, typer.Option("--weights", metavar="FILE", help="Start from these weights; do not train.")
]
_Baseline = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="RUN", help="An earlier run: its artifacts are measured beside the new ones."),
]


def command(
    request: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help="PIPELINE.toml, RECIPE.py or zoo:NAME; without it, zoo:digits-cnn.",
            autocompletion=complete_models,
        ),
    ] = None,
    *,
    weights: _StartWeights = None,
    to: options.To = None,
    metric: options.Metric = None,
    allowed_loss: options.AllowedLoss = None,
    runtime: options.RuntimeNames = None,
    batch: options.Batch = None,
    device: options.Device = None,
    threads: options.Threads = None,
    latency_bound: options.LatencyBound = None,
    metric_loss: options.MetricLoss = None,
    price_per_hour: options.PricePerHour = None,
    no_bench: Annotated[bool, typer.Option("--no-bench", help="Leave latency out.")] = False,
    baseline: _Baseline = None,
    tfserving_url: options.TfservingUrl = None,
    tfserving_model: options.TfservingModel = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs go.")] = Path("runs"),
    store: options.Store = None,
    jobs: options.Jobs = None,
    sign_key: options.SignKey = None,
    junit: options.Junit = None,
    sarif: options.Sarif = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train, convert, validate, measure, and say what may be released.

    Leaves runs/ID/ with run.json, report.html, report.md, the artifacts, the logs and a script per step. What a former
    run finished is not done again. The exit status is the verdict: 0 pass, 1 fail, 3 inconclusive, 4 no route left.
    """
    pipeline, recipe = (Path(request), None) if request and request.endswith(".toml") else (None, request)
    runtimes, batches = options.split(runtime) or None, options.parse_batches(batch) or None
    changes: dict[str, Any] = {
        "model": {"recipe": recipe, "weights": str(weights.absolute()) if weights else None},
        "convert": {"targets": options.split(to) or None},
        "validate": {"runtimes": runtimes, "metric": metric, "allowed_loss": allowed_loss},
        "bench": {"runtimes": runtimes, "batches": batches, "threads": threads, "enabled": False if no_bench else None},
        "release": options.release_options(latency_bound, metric_loss, price_per_hour),
        "baseline": {"run": str(baseline.absolute()) if baseline else None},
        "device": device, "tfserving_url": tfserving_url, "tfserving_model": tfserving_model,
    }  # fmt: skip
    local = (store, out, jobs, sign_key)
    with ci_files("run", junit, sarif) as files:
        outcome, model = _run(pipeline, changes, local, quiet=quiet)
    if files.wanted:
        from ..ci.ci_rows import rows_of_run
        from ..ci.source_places import SourcePlaces

        files.write(rows_of_run(outcome.result, SourcePlaces(pipeline, model)), outcome.result.exit_code)
    from .report import print_run

    print_run(outcome.folder, outcome.result, json=json)
    raise typer.Exit(int(outcome.result.exit_code))


def _run(
    pipeline: Path | None,
    changes: dict[str, Any],
    local: tuple[Path | None, Path, int | None, Path | None],
    *,
    quiet: bool,
) -> tuple[FinishedRun, str]:
    """Run, and return the result with the text of its model. `local`: store, runs, number of workers, signing key."""
    from ..commands.run import run
    from ..context import LocalSettings
    from ..progress import Progress
    from ..request import read_request

    request = read_request(pipeline, changes)
    return run(request, LocalSettings.with_defaults(*local), Progress(quiet=quiet)), request.model.recipe
