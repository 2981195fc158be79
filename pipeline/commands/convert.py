"""What the command `convert` does: every wanted target of a model in a folder, or why it is not there in a sentence."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...converters import third_party
from ...models.artifact import RECORD
from ...models.errors import BadRequest, Exit
from ...models.formats import PAYLOAD, Target
from ..context import Context
from ..intake.model import Asked, check_writable, prepare_given, start_of
from ..intake.prepare import Prepared
from ..minimal_repro.search import Smallest, smallest_pieces
from ..plan.router import TargetResult
from ..plan.routes import Route, require_routes, routes_to, steps_for
from ..progress import Progress
from ..request import RunRequest
from ..result.gate import verdict_of, why_not_made
from ..result.rows import artifact_row
from ..result.schema import ArtifactRow, Status, Verdict
from ..settings import Places
from ..stages.convert import convert_all, converting, expect_frameworks
from ..workers.worker_slots import WorkerSlots
from .validate_bench import document, new_context, place_for, scratch, write


@dataclass(frozen=True)
class Converted:
    """What `convert` made, in `folder`."""

    artifacts: tuple[ArtifactRow, ...]
    folder: Path
    smallest: tuple[Smallest, ...] = ()  # of targets that are not there: where their routes fail

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """Pass where every target is there. Fail: its routes gave wrong answers (1), or none was left (4)."""
        return verdict_of((), self.artifacts)

    @property
    def document(self) -> dict[str, Any]:
        """convert.json."""
        return document(
            self.decided,
            artifacts=(tuple[ArtifactRow, ...], self.artifacts),
            smallest=(tuple[Smallest, ...], self.smallest),
        )


@dataclass(frozen=True)
class Explained:
    """A route to a target, and what keeps it from being taken here."""

    target: Target
    route: Route
    missing: str | None


def explain(model: str, targets: Sequence[Target], requested: Collection[str] = ()) -> list[Explained]:
    """Every route from the model to each target, cheapest first, with the steps that the options `requested` open. Runs
    nothing."""
    start, steps = start_of(model), steps_for(requested)
    return [
        Explained(target, route, route.lacking)
        for target in targets
        for route in ([Route(())] if target == start else routes_to(target, start, steps))
    ]


def convert(
    request: RunRequest,
    asked: Asked,
    out: Path,
    places: Places,
    progress: Progress,
    *,
    slots: WorkerSlots | None = None,
) -> Converted:
    """Put every wanted target in `out`/<target>/, by the cheapest route that verifies. Models that are converted at the
    same time share `slots`.

    Raises TransloadError where the model or the data cannot be taken; what happens to one target is in its row.
    """
    require_routes(request.targets, start_of(asked.text), steps_for(request.convert.requested))
    check_writable(out, "--out")
    for target in request.targets:
        _check_free(out / target.slug)
    for why in third_party.known().refused:
        progress.note(why)
    context = new_context(request, out, places, progress, slots)
    expect_frameworks(context, start_of(asked.text))
    with place_for(out), scratch(context):
        prepared = prepare_given(context, asked, probes_only=True, meanwhile=partial(converting, context))
        with progress.stage("convert", len(request.targets)) as stage:
            made = convert_all(context, prepared)
            stage.note = f"{sum(each.stored is not None for each in made)} of {len(made)} targets made"
        rows = tuple(_converted_row(each) for each in made)
        for each in made:
            _place(each, out / each.target.slug)
        done = Converted(rows, out, _look_closer(context, prepared, made))
        write(out / "convert.json", done.document)
    return done


def _look_closer(context: Context, prepared: Prepared, made: Sequence[TargetResult]) -> tuple[Smallest, ...]:
    """What the targets that are not there fail at."""
    if not any(each.failures for each in made if each.stored is None):
        return ()
    with context.progress.stage("shrink") as stage:
        found = smallest_pieces(context, prepared, made)
        stage.note = f"pieces that fail by themselves: {len({each.script for each in found})}, in repeat/"
    return found


def _check_free(folder: Path) -> None:
    """A place that an artifact may be put at. Raises BadRequest where somebody's own files lie there."""
    if folder.is_symlink() or (folder.exists() and not (folder / RECORD).is_file() and _occupied(folder)):
        raise BadRequest(f"{folder} holds something else than an artifact", fix="name another folder with --out")


def _occupied(folder: Path) -> bool:
    return not folder.is_dir() or any(folder.iterdir())


def _place(made: TargetResult, folder: Path) -> None:
    """The artifact at `folder`, whole, in place of what a former run put there; nothing where there is none now."""
    if made.stored is None:
        shutil.rmtree(folder, ignore_errors=True)  # else an old copy would be taken for what was just made
        return
    beside = folder.with_name(f".{folder.name}.half")
    shutil.rmtree(beside, ignore_errors=True)
    shutil.copytree(made.stored.folder, beside)
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)


def _converted_row(made: TargetResult) -> ArtifactRow:
    """A row of convert.json: a target that is there has been checked on its way, and no more was asked."""
    row = artifact_row(made, ())
    if made.stored is None:
        return row
    no_evidence = any(tried.route == row.route and tried.status == "unverified" for tried in made.tried)
    status = Status.UNVERIFIED if no_evidence else Status.VERIFIED
    return replace(row, path=f"{made.target.slug}/{PAYLOAD[made.target.format]}", status=status)


def agreement(row: ArtifactRow) -> str:
    """One sentence on a row of `convert`: how the artifact was verified, or why there is none."""
    if row.path is None:
        return why_not_made(row)
    return next((tried.reason for tried in row.tried if tried.route == row.route), "the model as it was given")
