"""`transload run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...models.data_sources.data_argument import absolute_data
from ...models.errors import BadRequest
from ..options import shared_options as shared
from ..options.option import CommandOptions, Key, Option, Side
from ..result.list_records import ListCommand
from ..show.ci.ci_files import ci_files
from .many_models import do_models_file

if TYPE_CHECKING:
    from ..commands.run import FinishedRun


class RunOptions(CommandOptions):
    """Train, convert, validate, measure, and say what may be released.

    Leaves runs/ID/ with run.json, report.html, report.md, the artifacts, the logs and a script per step. What a former
    run finished is not done again. The exit status is the verdict: 0 pass, 1 fail, 3 inconclusive, 4 no route left.
    """

    request: Annotated[
        str | None,
        Option(
            metavar="WHAT",
            help="PIPELINE.toml, RECIPE.py or zoo:NAME; without it, zoo:digits-cnn. Or a MODELS.toml.",
            complete=shared.complete.complete_models,
            only=Side.LINE,
        ),
    ] = None
    pipeline: Annotated[Path | None, Option(help="A pipeline file.", only=Side.PYTHON)] = None
    recipe: Annotated[
        str | None, Key("model.recipe"), Option("--recipe", "RECIPE", "RECIPE.py or zoo:NAME.", only=Side.PYTHON)
    ] = None
    weights: Annotated[shared.Weights, Option("--weights", "FILE", "Start from these weights; do not train.")] = None
    weights_key: shared.WeightsKey = None
    python: shared.Python = None
    data: Annotated[shared.Data, Key("data", absolute_data)] = None
    epochs: Annotated[
        int | None,
        Key("train.epochs"),
        Option("--epochs", "N", "Passes over the training data; else the recipe's.", min=1),
    ] = None
    to: shared.Targets = None
    metric: shared.Metric = None
    allowed_loss: shared.AllowedLoss = None
    non_finite: shared.NonFinite = None
    runtimes: Annotated[shared.Runtimes, Key("validate.runtimes"), Key("bench.runtimes")] = None
    batches: Annotated[shared.Batches, Key("bench.batches")] = None
    device: shared.Device = None
    threads: shared.Threads = None
    budget_s: shared.Budget = None
    latency_bound_s: shared.LatencyBound = None
    metric_loss: shared.MetricLoss = None
    price_per_hour: shared.PricePerHour = None
    bench: Annotated[bool, Key("bench.enabled"), Option("--no-bench", help="Leave latency out.")] = True
    baseline: Annotated[
        Path | None,
        Key("baseline.run", shared.absolute),
        Option("--baseline", "RUN", "An earlier run: its artifacts are measured beside the new ones."),
    ] = None
    release_loss: Annotated[
        float | None,
        Key("gate.no_worse", lambda loss: {"metric_loss": loss}),
        Option(
            "--release-loss",
            "LOSS",
            "Metric it may lose against --baseline, in its own unit; else 0.01 of a score, 2 % of an error.",
            min=0,
        ),
    ] = None
    allow_missing: Annotated[bool, Key("baseline.allow_missing"), shared.ALLOW_MISSING] = False
    tfserving_url: shared.TfservingUrl = None
    tfserving_model: shared.TfservingModel = None
    mlflow: shared.MlflowUri = None
    experiment: shared.Experiment = None
    promote: shared.Promote = None
    runs: shared.Runs = Path("runs")
    store: shared.Store = None
    executor: shared.Executor = None
    jobs: shared.Jobs = None
    sign_key: shared.SignKey = None
    model_version: shared.ModelVersion = None
    junit: shared.Junit = None
    sarif: shared.Sarif = None
    resume: shared.Resume = False
    fail_fast: shared.FailFast = False
    json_: shared.Json = False
    quiet: shared.Quiet = False


def run(options: RunOptions) -> tuple[FinishedRun, str]:
    """Run the pipeline; return its result, and the text that names its model. Raises TransloadError."""
    from ..commands.run import run as run_pipeline
    from ..options.request import read_request
    from ..progress.progress import Progress
    from .requests import local_settings

    request = read_request(options.pipeline, options.sections())
    return run_pipeline(request, local_settings(options), Progress(quiet=options.quiet)), request.model.recipe


def command(options: RunOptions) -> None:
    """Run the pipeline, for each model where a list is named, and print the report."""
    from .record import print_record
    from .report import print_run

    if options.request == "":  # as of a shell's variable that is not set
        raise BadRequest("WHAT is empty", fix="name a pipeline file or a recipe, or leave it out: zoo:digits-cnn")
    if do_models_file(ListCommand.RUN, [options.request] if options.request else [], options):
        return
    if options.request and options.request.endswith(".toml"):
        options = options.model_copy(update={"pipeline": Path(options.request)})
    else:
        options = options.model_copy(update={"recipe": options.request})
    with ci_files("run", options.junit, options.sarif) as files:
        outcome, model = run(options)
    if files.wanted:
        from ..show.ci.ci_rows import rows_of_run
        from ..show.ci.source_places import SourcePlaces

        rows = rows_of_run(outcome.result, SourcePlaces(options.pipeline, model))
        files.write(rows, outcome.result.exit_code)
    print_run(outcome.folder, outcome.result, json=options.json_)
    print_record(outcome.record, outcome.result.verdict, json=options.json_)
    raise typer.Exit(int(outcome.result.exit_code))
