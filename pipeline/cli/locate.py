"""`transload locate`."""

from __future__ import annotations

from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

import typer

from . import option_values, options
from .completion.completion_values import complete_models
from .output.render import finish, table, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..commands.locate import LocateAllResult, LocateResult

Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="MODEL",
        help="The model in PyTorch that it was made from; else the one that its record names.",
        autocompletion=complete_models,
    ),
]
Seconds = Annotated[float, typer.Option("--seconds", min=1, metavar="S", help="How long to search.")]


def command(
    candidates: Annotated[
        list[str],
        typer.Argument(metavar="CANDIDATE...", help="Artifacts' folders, that of a whole convert, or models in files."),
    ],
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
    seconds: Seconds = 120.0,
    jobs: options.Jobs = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where runs go.")] = Path("runs"),
    store: options.Store = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find where artifacts depart from the model they were made from.

    The operator, the module and the line of the model's code whose result the artifact's own inputs of it do not
    explain. The exit status is 0 where nothing departs, 1 where something does.
    """
    from ..api import locate_all

    done = locate_all(
        *candidates, against=against, inputs=option_values.parse_inputs(input_), data=data, weights=weights,
        weights_key=weights_key, settings=option_values.parse_settings(set_), python=python,
        model_seconds=model_seconds, trust=trust,
        seconds=seconds, runs=out, store=store, jobs=jobs, quiet=quiet,
    )  # fmt: skip
    values = {"--data": data, "--weights": weights, "--weights-key": weights_key, "--input": input_, "--set": set_}
    model = [done.results[0].model, *words_of(values), *(["--trust"] if trust else [])]
    if len(done.results) + len(done.unlocated) == 1:
        (only,) = done.results
        last = f"{done.decided[0].upper()}  logs in {done.folder}"
        finish(only.document, [*_lines(only, model), "", last], done.decided[1], json=json)
    finish(done.document, _lines_of_all(done, model), done.decided[1], json=json)


def _lines_of_all(done: LocateAllResult, model: Sequence[str]) -> list[str]:
    """Return a row per artifact, a section for each that departs, and the verdict."""
    rows, sections = [("artifact", "verdict", "")], []
    for result in done.results:
        head, *rest = _lines(result, model)
        rows.append((result.artifact, str(result.decided[0]), "" if result.capture.departs else head))
        sections += ["", f"{result.artifact}: {head}", *rest] if result.capture.departs else []
    for artifact, reason in done.unlocated.items():
        rows.append((artifact, "left out" if artifact in done.left_out else "not searched", reason))
    return [*table(rows), *sections, "", f"{done.decided[0].upper()}  logs in {done.folder}"]


def _lines(done: LocateResult, model: Sequence[str]) -> list[str]:
    """Return the places, the first first, how far they explain the outputs, and what makes an int8 copy depart less.
    `model`: the words of a command that name the model and its data."""
    from ..locate.describe import describe_places

    lines = describe_places(done.capture, done.follow)
    if done.can_keep_float:
        again = join(["transload", "convert", *model, "--to", str(done.target), "--keep-float", "auto"])
        lines.append(f"to keep the layers in float32 that lose most: {again}")
    return [*lines, *done.doubts]
