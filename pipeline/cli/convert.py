"""`transload convert`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ...models.errors import BadRequest
from ..options import shared_options as shared
from ..options.option import CommandOptions, Option, Positional, Side
from ..plan.model_argument import ACCEPTED
from ..result.list_records import ListCommand
from ..show.ci.ci_files import ci_files
from .many_models import do_models_file
from .output.render import finish, print_json, print_lines

if TYPE_CHECKING:
    from ...models.formats import Target
    from ..commands.convert import ConvertManyResult, ConvertResult
    from ..options.request import RunRequest
    from ..plan.model_argument import ModelRequest
    from ..show.ci.ci_rows import CiRow

OWN = ("weights", "weights_key", "settings", "model_version")  # options of one model


class ConvertOptions(CommandOptions):
    """Carry a model, or several, into other formats, each verified against it.

    DIR gets a folder per target, logs, a script per step, and convert.json; with several models such a folder for each.
    Without --data a model that is no recipe is verified on random inputs. The exit status: 0 all verified, 1 a target's
    routes gave wrong answers, 4 none was left, 2 a model cannot be taken; of several models the worst.
    MODELS.toml lists models and their options (docs/many-models.md).
    """

    models: Annotated[
        tuple[Any, ...],
        shared.by(tuple, Sequence[str]),
        Option(
            metavar="MODEL",
            several=True,
            help=f"{ACCEPTED}; or a MODELS.toml.",
            complete=shared.complete.complete_models,
        ),
    ]
    to: Annotated[shared.Targets, Positional()] = None
    out: shared.Out = None
    inputs: shared.Inputs = ()
    data: shared.Data = None
    weights: shared.Weights = None
    weights_key: shared.WeightsKey = None
    settings: shared.Settings = None
    python: shared.Python = None
    model_seconds: shared.ModelSeconds = None
    search_seconds: shared.SearchSeconds = None
    trust: shared.Trust = False
    flex: shared.Flex = False
    keep_float: shared.KeepFloat = None
    device: shared.Device = None
    non_finite: shared.NonFinite = None
    jobs: shared.Jobs = None
    store: shared.Store = None
    sign_key: shared.SignKey = None
    model_version: shared.ModelVersion = None
    executor: shared.Executor = None
    explain: Annotated[
        bool,
        Option("--explain", help="Print the routes to each target and what they lack; run nothing.", only=Side.LINE),
    ] = False
    resume: shared.Resume = False
    fail_fast: shared.FailFast = False
    junit: shared.Junit = None
    sarif: shared.Sarif = None
    json_: shared.Json = False
    quiet: shared.Quiet = False


def convert(options: ConvertOptions) -> ConvertResult:
    """Convert one model. Raises TransloadError."""
    from ..commands.convert import convert as carry
    from ..commands.live_model_argument import name_model
    from ..commands.workspace import remove_if_unused
    from ..progress.progress import Progress
    from .requests import local_settings

    progress, out = Progress(quiet=options.quiet), _require_out(options)
    (model,) = options.models
    with remove_if_unused(out):
        text, inputs = name_model(model, options.inputs, out, progress, has_data=options.data is not None)
        named = options.model_copy(update={"inputs": tuple(inputs)})
        return carry(*_requests(text, named), out, local_settings(options), progress)


def convert_all(options: ConvertOptions) -> ConvertManyResult:
    """Convert several models. Raises TransloadError."""
    from ..commands.convert import convert_models
    from ..progress.progress import Progress
    from .requests import local_settings

    if own := [name for name in OWN if name in options.non_defaults()]:
        raise BadRequest(
            f"{ConvertOptions.word_of(own[0])} is for one model", fix="convert that model in a command of its own"
        )
    requests = [_requests(str(model), options) for model in options.models]
    return convert_models(requests, _require_out(options), local_settings(options), Progress(quiet=options.quiet))


def _requests(model: str, options: ConvertOptions) -> tuple[RunRequest, ModelRequest]:
    from ..options.request import read_request
    from ..plan.model_argument import ModelRequest

    _require_targets(options)
    sections = options.sections()
    sections["model"] = {**sections.get("model", {}), "recipe": model}
    sections["convert"]["cross_check"] = False  # the other routes took three quarters of the time
    return read_request(None, sections), ModelRequest(model, options.inputs, data=options.data)


def _require_targets(options: ConvertOptions) -> Sequence[Target]:
    if not options.to:
        raise BadRequest("no target is named", fix="name what to make, as in --to onnx,tflite ('transload formats')")
    return options.to


def _require_out(options: ConvertOptions) -> Path:
    if options.out is None:
        raise BadRequest("nothing says where to put what is made", fix="name a folder, as in --out converted")
    return options.out


def command(options: ConvertOptions) -> None:
    """Convert one model, several, or those of a list, and print what became of them."""
    from .output.convert_output import lines, lines_of_all

    if do_models_file(ListCommand.CONVERT, options.models, options):
        return
    targets = _require_targets(options)
    if options.explain:
        _explain(options, targets)
        return
    _require_out(options)
    with ci_files("convert", options.junit, options.sarif) as files:
        done: ConvertResult | ConvertManyResult
        if len(options.models) == 1:
            done = convert(options)
            text = lines(done)
        else:
            done = convert_all(options)
            text = lines_of_all(done)
    if files.wanted:
        files.write(_ci_rows(options.models, done), int(done.decided[1]))
    finish(done.document, text, done.decided[1], json=options.json_)


def _ci_rows(models: Sequence[str], done: ConvertResult | ConvertManyResult) -> list[CiRow]:
    from ..commands.convert import ConvertResult
    from ..show.ci.ci_rows import row_of_error, rows_of_targets
    from ..show.ci.source_places import SourcePlaces

    if isinstance(done, ConvertResult):
        smallest = [piece.row for piece in done.smallest]
        return list(rows_of_targets(done.artifacts, SourcePlaces(model=models[0]), smallest=smallest))
    rows: list[CiRow] = []
    for converted in done.models:
        if converted.error:
            rows.append(row_of_error(converted.error, name=converted.name))
        elif converted.converted:
            own, smallest = converted.converted, [piece.row for piece in converted.converted.smallest]
            places = SourcePlaces(model=converted.model)
            rows += rows_of_targets(own.artifacts, places, smallest=smallest, model=converted.name)
    return rows


def _explain(options: ConvertOptions, targets: Sequence[Target]) -> None:
    from ..commands.convert import explain
    from ..plan.source_python import likely_framework
    from .output.convert_output import plan_lines, plan_rows

    models = list(map(str, options.models))
    requested = _requests(models[0], options)[0].convert.requested
    frameworks = {model: likely_framework(model, options.python) for model in models}
    plans = {model: explain(model, targets, requested, user_framework=frameworks[model]) for model in models}
    if options.json_:
        documents = [{"model": model, "routes": plan_rows(plan)} for model, plan in plans.items()]
        print_json({"routes": plan_rows(plans[models[0]])} if len(models) == 1 else {"models": documents})
        return
    for number, (model, plan) in enumerate(plans.items()):
        print_lines([*([""] if number else []), *([f"{model}"] if len(models) > 1 else []), *plan_lines(plan)])
