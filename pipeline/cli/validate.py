"""`transload validate`."""

from __future__ import annotations

from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

import typer

from ..result.list_records import ListCommand
from ..show.ci.ci_files import ci_files
from . import option_values, options
from .completion.completion_values import complete_models
from .many_models import FailFast, Resume, do_models_file
from .output.render import finish, page, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..commands.validate import ValidateResult

Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="MODEL",
        help="The model that they were made from, as 'convert' takes it; else the one that their records name.",
        autocompletion=complete_models,
    ),
]
_Candidates = Annotated[
    list[str],
    typer.Argument(
        metavar="CANDIDATE...",
        help="Artifacts' folders, models in files, or URLs of served models; or a MODELS.toml.",
    ),
]
_Converted = Annotated[
    Path | None,
    typer.Option("--converted", metavar="DIR", help="Of a models file: the folder that convert left, else --out."),
]
_All = Annotated[bool, typer.Option("--all", help="Print a row for every batch size, not one for each runtime.")]
_Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs go.")]


def command(
    context: typer.Context,
    candidates: _Candidates,
    *,
    against: Against = None,
    data: options.Data = None,
    input_: options.Input = None,
    weights: options.Weights = None,
    weights_key: options.WeightsKey = None,
    set_: options.Set = None,
    python: options.Python = None,
    model_seconds: options.ModelSeconds = None,
    trust: options.Trust = False,
    metric: options.Metric = None,
    allowed_loss: options.AllowedLoss = None,
    non_finite: options.NonFinite = None,
    runtime: options.RuntimeNames = None,
    batch: options.Batch = None,
    device: options.Device = None,
    untuned: options.Untuned = False,
    tfserving_url: options.TfservingUrl = None,
    tfserving_model: options.TfservingModel = None,
    jobs: options.Jobs = None,
    out: _Out = Path("runs"),
    store: options.Store = None,
    executor: options.Executor = None,
    converted: _Converted = None,  # noqa: ARG001  (do_models_file reads the context)
    resume: Resume = False,  # noqa: ARG001
    fail_fast: FailFast = False,  # noqa: ARG001
    all_: _All = False,
    junit: options.Junit = None,
    sarif: options.Sarif = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Hold the answers of artifacts against those of the model they were made from.

    In every runtime that takes each, on the whole test set and at each batch size. Without --data a model that is no
    recipe is asked random inputs. The exit status is the verdict: 0 pass, 1 fail, 3 inconclusive.
    """
    if do_models_file(ListCommand.VALIDATE, candidates, context):
        return
    from ..api import validate

    with ci_files("validate", junit, sarif) as files:
        done = validate(
            *candidates, against=against, runtimes=option_values.parse_runtimes(runtime) or None,
            batches=option_values.parse_batches(batch) or None, inputs=option_values.parse_inputs(input_), data=data,
            weights=weights, weights_key=weights_key, settings=option_values.parse_settings(set_), python=python,
            model_seconds=model_seconds, trust=trust, metric=metric, allowed_loss=allowed_loss, device=device,
            non_finite=non_finite,
            untuned=untuned, tfserving_url=tfserving_url, tfserving_model=tfserving_model, runs=out, store=store,
            jobs=jobs, executor=executor, quiet=quiet,
        )  # fmt: skip
    if files.wanted:
        from ..show.ci.ci_rows import rows_of_drift
        from ..show.ci.source_places import SourcePlaces

        files.write(list(rows_of_drift(done.drift, done.gate, SourcePlaces(model=done.model))), int(done.decided[1]))
    values = {"--data": data, "--weights": weights, "--weights-key": weights_key, "--input": input_, "--set": set_}
    model = [*words_of({"--against": against, **values}), *(["--trust"] if trust else [])]
    finish(done.document, _lines(done, model, every_batch=all_), done.decided[1], json=json)


def _lines(done: ValidateResult, model: Sequence[str], *, every_batch: bool) -> list[str]:
    """Return a line per runtime, or batch size, the rules that are not kept, what finds the place, the verdict last.
    `model`: the words of the command that name the model and its data."""
    from ..result.facts import own_facts
    from ..show.exercise_view import exercises
    from ..show.tables.check_tables import agreement_table
    from ..show.units import sentence

    table = agreement_table(done.drift, every_batch=every_batch)
    several = len({row.artifact for row in done.drift}) > 1
    wrong = [
        f"{rule.artifact}{f' in {rule.runtime}' if rule.runtime else ''}: "
        + (sentence(rule) if isinstance(rule.got, float) else f"{rule.rule}: {rule.got}")
        for rule in own_facts(done.gate)
    ]
    lost = dict.fromkeys(f"{row.artifact} in {row.runtime}: {row.lost}" for row in done.drift if row.lost)
    inner = [f"{row.artifact} in {row.runtime}: {row.note}" for row in done.evidence.inner_ranges if row.note]
    questions = [exercise.sentence for exercise in exercises(done.evidence.exercised)]
    wrong += [f"where: {join(['transload', 'locate', text, *model])}" for text in done.departing]
    notes = [*wrong, *lost, *([done.note] if done.note else []), *inner, *questions, *done.doubts]
    return page(
        (table if several else table.without("artifact")).texts(),
        notes,
        f"{done.decided[0].upper()}  logs in {done.folder}",
    )
