"""`transload convert`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...models.errors import BadRequest
from ..plan.model_argument import ACCEPTED
from ..result.list_records import ListCommand
from ..show.ci.ci_files import ci_files
from . import option_values, options
from .completion.completion_values import complete_models
from .many_models import FailFast, Resume, do_models_file
from .output.render import finish, print_json, print_lines

if TYPE_CHECKING:
    from ...models.formats import Target
    from ..commands.convert import ConvertManyResult, ConvertResult
    from ..show.ci.ci_rows import CiRow


_Models = Annotated[
    list[str], typer.Argument(metavar="MODEL", help=f"{ACCEPTED}; or a MODELS.toml.", autocompletion=complete_models)
]
_Explain = Annotated[
    bool, typer.Option("--explain", help="Print the routes to each target and what they lack; run nothing.")
]


def command(
    context: typer.Context,
    model: _Models,
    *,
    to: options.To = None,
    out: options.Out = None,
    input_: options.Input = None,
    data: options.Data = None,
    weights: options.Weights = None,
    weights_key: options.WeightsKey = None,
    set_: options.Set = None,
    python: options.Python = None,
    model_seconds: options.ModelSeconds = None,
    search_seconds: options.SearchSeconds = None,
    trust: options.Trust = False,
    flex: options.Flex = False,
    keep_float: options.KeepFloat = None,
    device: options.Device = None,
    non_finite: options.NonFinite = None,
    jobs: options.Jobs = None,
    store: options.Store = None,
    sign_key: options.SignKey = None,
    model_version: options.ModelVersion = None,
    executor: options.Executor = None,
    explain: _Explain = False,
    resume: Resume = False,  # noqa: ARG001  (do_models_file reads the context)
    fail_fast: FailFast = False,  # noqa: ARG001
    junit: options.Junit = None,
    sarif: options.Sarif = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Carry a model, or several, into other formats, each verified against it.

    DIR gets a folder per target, logs, a script per step, and convert.json; with several models such a folder for each.
    Without --data a model that is no recipe is verified on random inputs. The exit status: 0 all verified, 1 a target's
    routes gave wrong answers, 4 none was left, 2 a model cannot be taken; of several models the worst.
    MODELS.toml lists models and their options (docs/many-models.md).
    """
    if do_models_file(ListCommand.CONVERT, model, context):
        return
    targets = option_values.parse_targets(to)
    arguments: dict[str, Any] = {
        "out": out, "inputs": option_values.parse_inputs(input_), "data": data, "python": python,
        "model_seconds": model_seconds, "search_seconds": search_seconds, "trust": trust, "flex": flex,
        "keep_float": keep_float, "device": device, "store": store, "jobs": jobs, "sign_key": sign_key,
        "executor": executor, "non_finite": non_finite, "quiet": quiet,
    }  # fmt: skip
    own = {"weights": weights, "weights_key": weights_key, "settings": option_values.parse_settings(set_)}
    own |= {"model_version": model_version}
    if not targets:
        raise BadRequest("no target is named", fix="name what to make, as in --to onnx,tflite ('transload formats')")
    if explain:
        _explain(model, targets, {"flex": flex, "keep_float": keep_float}, python=python, json=json)
        return
    _require_out(out)
    with ci_files("convert", junit, sarif) as files:
        done, lines = _convert(model, targets, arguments, own)
    if files.wanted:
        files.write(_ci_rows(model, done), int(done.decided[1]))
    finish(done.document, lines, done.decided[1], json=json)


def _require_out(out: Path | None) -> None:
    if out is None:
        raise BadRequest("nothing says where to put what is made", fix="name a folder, as in --out converted")


def _convert(
    models: Sequence[str], targets: Sequence[Target], arguments: Mapping[str, Any], own: Mapping[str, Any]
) -> tuple[ConvertResult | ConvertManyResult, list[str]]:
    """One model, with what is its `own`, or several; and what a person is told."""
    from ..api import convert, convert_all
    from .output.convert_output import lines, lines_of_all

    if len(models) == 1:
        result = convert(models[0], targets, **arguments, **own)
        return result, lines(result)
    for name, value in own.items():
        if value:
            option = {"settings": "set"}.get(name, name.replace("_", "-"))
            raise BadRequest(f"--{option} is for one model", fix="convert that model in a command of its own")
    several = convert_all(models, targets, **arguments)
    return several, lines_of_all(several)


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


def _explain(
    models: Sequence[str], targets: Sequence[Target], settings: Mapping[str, Any], *, python: str | None, json: bool
) -> None:
    from ..commands.convert import explain
    from ..plan.source_python import likely_framework
    from ..request import read_request
    from .output.convert_output import plan_lines, plan_rows

    section = {"targets": list(map(str, targets)), **settings}
    requested = read_request(None, {"convert": section}).convert.requested
    foreign = {model: likely_framework(model, python) for model in models}
    plans = {model: explain(model, targets, requested, foreign=foreign[model]) for model in models}
    if json:
        documents = [{"model": model, "routes": plan_rows(plan)} for model, plan in plans.items()]
        print_json({"routes": plan_rows(plans[models[0]])} if len(models) == 1 else {"models": documents})
        return
    for number, (model, plan) in enumerate(plans.items()):
        print_lines([*([""] if number else []), *([f"{model}"] if len(models) > 1 else []), *plan_lines(plan)])
