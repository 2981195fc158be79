"""`transload run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...models.data_sources.data_argument import absolute_data
from ...models.errors import BadRequest
from ..result.list_records import ListCommand
from ..show.ci.ci_files import ci_files
from . import option_values, options
from .completion.completion_values import complete_models
from .many_models import FailFast, Resume, do_models_file

if TYPE_CHECKING:
    from ..commands.run import FinishedRun

_StartWeights = Annotated[
    Path | None, typer.Option("--weights", metavar="FILE", help="Start from these weights; do not train.")
]
_Epochs = Annotated[
    int | None, typer.Option("--epochs", min=1, metavar="N", help="Passes over the training data; else the recipe's.")
]
_Baseline = Annotated[
    Path | None,
    typer.Option("--baseline", metavar="RUN", help="An earlier run: its artifacts are measured beside the new ones."),
]
_ReleaseLoss = Annotated[
    float | None,
    typer.Option(
        "--release-loss", min=0, metavar="LOSS",
        help="Metric it may lose against --baseline, in its own unit; else 0.01 of a score, 2 % of an error.",
    ),
]  # fmt: skip

_What = Annotated[
    str | None,
    typer.Argument(
        metavar="WHAT",
        help="PIPELINE.toml, RECIPE.py or zoo:NAME; without it, zoo:digits-cnn. Or a MODELS.toml.",
        autocompletion=complete_models,
    ),
]


def command(
    context: typer.Context,
    request: _What = None,
    *,
    weights: _StartWeights = None,
    weights_key: options.WeightsKey = None,
    python: options.Python = None,
    data: options.Data = None,
    epochs: _Epochs = None,
    to: options.To = None,
    metric: options.Metric = None,
    allowed_loss: options.AllowedLoss = None,
    non_finite: options.NonFinite = None,
    runtime: options.RuntimeNames = None,
    batch: options.Batch = None,
    device: options.Device = None,
    threads: options.Threads = None,
    budget: options.Budget = None,
    latency_bound: options.LatencyBound = None,
    metric_loss: options.MetricLoss = None,
    price_per_hour: options.PricePerHour = None,
    no_bench: Annotated[bool, typer.Option("--no-bench", help="Leave latency out.")] = False,
    baseline: _Baseline = None,
    release_loss: _ReleaseLoss = None,
    allow_missing: options.AllowMissing = False,
    tfserving_url: options.TfservingUrl = None,
    tfserving_model: options.TfservingModel = None,
    mlflow: options.Mlflow = None,
    experiment: options.Experiment = None,
    promote: options.Promote = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs go.")] = Path("runs"),
    store: options.Store = None,
    executor: options.Executor = None,
    jobs: options.Jobs = None,
    sign_key: options.SignKey = None,
    model_version: options.ModelVersion = None,
    junit: options.Junit = None,
    sarif: options.Sarif = None,
    resume: Resume = False,  # noqa: ARG001  (do_models_file reads the context)
    fail_fast: FailFast = False,  # noqa: ARG001
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train, convert, validate, measure, and say what may be released.

    Leaves runs/ID/ with run.json, report.html, report.md, the artifacts, the logs and a script per step. What a former
    run finished is not done again. The exit status is the verdict: 0 pass, 1 fail, 3 inconclusive, 4 no route left.
    """
    if request == "":  # as of a shell's variable that is not set
        raise BadRequest("WHAT is empty", fix="name a pipeline file or a recipe, or leave it out: zoo:digits-cnn")
    if do_models_file(ListCommand.RUN, [request] if request else [], context):
        return
    pipeline, recipe = (Path(request), None) if request and request.endswith(".toml") else (None, request)
    runtimes, batches = option_values.split(runtime) or None, option_values.parse_batches(batch) or None
    changes: dict[str, Any] = {
        "model": {
            "recipe": recipe, "weights": str(weights.absolute()) if weights else None, "weights_key": weights_key,
            "version": model_version,
            "python": python if python is None or os.sep not in python else str(Path(python).absolute()),
        },
        "train": {"epochs": epochs}, "data": absolute_data(data),
        "convert": {"targets": option_values.split(to) or None},
        "validate": {"runtimes": runtimes, "metric": metric, "allowed_loss": allowed_loss, "non_finite": non_finite},
        "bench": {
            "runtimes": runtimes, "batches": batches, "threads": threads, "enabled": False if no_bench else None,
            "budget_s": option_values.parse_duration(budget),
        },
        "release": option_values.release_options(latency_bound, metric_loss, price_per_hour),
        "gate": {"no_worse": None if release_loss is None else {"metric_loss": release_loss}},
        "baseline": {"run": str(baseline.absolute()) if baseline else None, "allow_missing": allow_missing or None},
        "mlflow": option_values.mlflow_options(mlflow, experiment, None, promote),
        "device": device, "tfserving_url": tfserving_url, "tfserving_model": tfserving_model,
    }  # fmt: skip
    local = {"store": store, "runs": out, "jobs": jobs, "sign_key": sign_key, "executor": executor}
    with ci_files("run", junit, sarif) as files:
        outcome, model = _run(pipeline, changes, local, quiet=quiet)
    if files.wanted:
        from ..show.ci.ci_rows import rows_of_run
        from ..show.ci.source_places import SourcePlaces

        files.write(rows_of_run(outcome.result, SourcePlaces(pipeline, model)), outcome.result.exit_code)
    from .record import print_record
    from .report import print_run

    print_run(outcome.folder, outcome.result, json=json)
    print_record(outcome.record, outcome.result.verdict, json=json)
    raise typer.Exit(int(outcome.result.exit_code))


def _run(
    pipeline: Path | None, changes: dict[str, Any], local: dict[str, Any], *, quiet: bool
) -> tuple[FinishedRun, str]:
    """Run, and return the result with the text of its model. `local`: as LocalSettings.with_defaults takes it."""
    from ..commands.run import run
    from ..context import LocalSettings
    from ..progress import Progress
    from ..request import read_request

    request = read_request(pipeline, changes)
    return run(request, LocalSettings.with_defaults(**local), Progress(quiet=quiet)), request.model.recipe
