"""`transload locate`."""

from __future__ import annotations

from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

from ...models.errors import BadRequest
from ..options import shared_options as shared
from ..options.option import Option
from ..options.reference_options import ReferenceOptions
from .output.render import finish, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..commands.locate import LocateAllResult, LocateResult


class LocateOptions(ReferenceOptions):
    """Find where artifacts depart from the model they were made from.

    The operator, the module and the line of the model's code whose result the artifact's own inputs of it do not
    explain. The exit status is 0 where nothing departs, 1 where something does.
    """

    candidates: Annotated[
        shared.Candidates,
        Option(
            metavar="CANDIDATE...",
            several=True,
            help="Artifacts' folders, that of a whole convert, or models in files.",
        ),
    ]
    against: Annotated[
        shared.Model,
        Option(
            "--against",
            "MODEL",
            "The model in PyTorch that it was made from; else the one that its record names.",
            complete=shared.complete.complete_models,
        ),
    ] = None
    seconds: Annotated[float, Option("--seconds", "S", "How long to search.", min=1)] = 120.0
    jobs: shared.Jobs = None
    runs: shared.Runs = Path("runs")
    store: shared.Store = None
    json_: shared.Json = False
    quiet: shared.Quiet = False


def locate_all(options: LocateOptions) -> LocateAllResult:
    """Find where the candidates depart from their model. Raises TransloadError."""
    from ..commands.locate import locate_all as search
    from ..progress.progress import Progress
    from .requests import candidates_in, local_settings, reference_of

    if not options.candidates:
        raise BadRequest("nothing to locate is named", fix="name the folders of artifacts")
    candidates, progress = candidates_in(options.candidates), Progress(quiet=options.quiet)
    request, model = reference_of(options, candidates, options.runs, progress)
    local = local_settings(options, jobs=1)  # its steps follow each other: one worker with all cores
    return search(request, candidates, model, local, progress, seconds=options.seconds)


def locate(options: LocateOptions) -> LocateResult:
    """Find where one candidate departs from its model. Raises TransloadError."""
    from .requests import candidates_in

    (candidate,) = options.candidates
    if len(texts := candidates_in([candidate])) > 1:
        fix = f"name one of {', '.join(texts)}, or call locate_all"
        raise BadRequest(f"{candidate} holds {len(texts)} artifacts, and locate has one result", fix=fix)
    return locate_all(options).results[0]


def command(options: LocateOptions) -> None:
    """Print where each artifact departs from its model."""
    done = locate_all(options)
    own = options.words("data", "weights", "weights_key", "inputs", "settings", "trust")
    model = [done.results[0].model, *own]
    if len(done.results) + len(done.unlocated) == 1:
        (only,) = done.results
        last = f"{done.decided[0].upper()}  logs in {done.folder}"
        finish(only.document, [*_lines(only, model), "", last], done.decided[1], json=options.json_)
    finish(done.document, _lines_of_all(done, model), done.decided[1], json=options.json_)


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
