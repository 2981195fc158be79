"""`transload validate`."""

from __future__ import annotations

from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

from ...models.errors import BadRequest
from ..options import shared_options as shared
from ..options.option import Key, Option, Side
from ..options.reference_options import ReferenceOptions
from ..result.list_records import ListCommand
from ..show.ci.ci_files import ci_files
from .many_models import do_models_file
from .output.render import finish, page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..commands.validate import ValidateResult


class ValidateOptions(ReferenceOptions):
    """Hold the answers of artifacts against those of the model they were made from.

    In every runtime that takes each, on the whole test set and at each batch size. Without --data a model that is no
    recipe is asked random inputs. The exit status is the verdict: 0 pass, 1 fail, 3 inconclusive.
    """

    candidates: Annotated[
        shared.Candidates,
        Option(
            metavar="CANDIDATE...",
            several=True,
            help="Artifacts' folders, models in files, or URLs of served models; or a MODELS.toml.",
        ),
    ]
    against: Annotated[
        shared.Model,
        Option(
            "--against",
            "MODEL",
            "The model that they were made from, as 'convert' takes it; else the one that their records name.",
            complete=shared.complete.complete_models,
        ),
    ] = None
    metric: shared.Metric = None
    allowed_loss: shared.AllowedLoss = None
    non_finite: shared.NonFinite = None
    runtimes: Annotated[shared.Runtimes, Key("validate.runtimes")] = None
    batches: Annotated[shared.Batches, Key("validate.batches")] = None
    device: shared.Device = None
    untuned: Annotated[bool, Key("validate.untuned"), shared.UNTUNED] = False
    tfserving_url: shared.TfservingUrl = None
    tfserving_model: shared.TfservingModel = None
    jobs: shared.Jobs = None
    runs: shared.Runs = Path("runs")
    store: shared.Store = None
    executor: shared.Executor = None
    converted: Annotated[
        Path | None,
        Option("--converted", "DIR", "Of a models file: the folder that convert left, else --out.", only=Side.LINE),
    ] = None
    resume: shared.Resume = False
    fail_fast: shared.FailFast = False
    every_batch: Annotated[
        bool, Option("--all", help="Print a row for every batch size, not one for each runtime.", only=Side.LINE)
    ] = False
    junit: shared.Junit = None
    sarif: shared.Sarif = None
    json_: shared.Json = False
    quiet: shared.Quiet = False


def validate(options: ValidateOptions) -> ValidateResult:
    """Compare the outputs of the candidates with those of their model. Raises TransloadError."""
    from ..commands.validate import validate as compare_answers
    from ..progress.progress import Progress
    from .requests import candidates_in, local_settings, reference_of

    if not options.candidates:
        raise BadRequest("nothing to validate is named", fix="name the folders of artifacts")
    candidates, progress = candidates_in(options.candidates), Progress(quiet=options.quiet)
    request, model = reference_of(options, candidates, options.runs, progress)
    return compare_answers(request, candidates, model, local_settings(options), progress)


def command(options: ValidateOptions) -> None:
    """Validate artifacts, or those of each model of a list, and print a row for each comparison."""
    if do_models_file(ListCommand.VALIDATE, options.candidates, options):
        return
    with ci_files("validate", options.junit, options.sarif) as files:
        done = validate(options)
    if files.wanted:
        from ..show.ci.ci_rows import rows_of_drift
        from ..show.ci.source_places import SourcePlaces

        files.write(list(rows_of_drift(done.drift, done.gate, SourcePlaces(model=done.model))), int(done.decided[1]))
    model = options.words("against", "data", "weights", "weights_key", "inputs", "settings", "trust")
    finish(done.document, _lines(done, model, every_batch=options.every_batch), done.decided[1], json=options.json_)


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
    wrong += [f"where: {join(['transload', 'locate', text, *model])}" for text in done.diverging]
    notes = [*wrong, *lost, *([done.note] if done.note else []), *inner, *questions, *done.doubts]
    return page(
        (table if several else table.without("artifact")).texts(),
        notes,
        f"{done.decided[0].upper()}  logs in {done.folder}",
    )
