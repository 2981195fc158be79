"""The command `convert`: every wanted target of a model in a folder, or the reason why it is not there."""

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
from ...models.whole_files import copy_folder_whole
from ..context import Context
from ..intake.model_argument import ModelRequest, start_of
from ..intake.run_inputs import RunInputs, resolve_inputs
from ..minimal_repro.search import MinimalRepro, find_repros
from ..plan.router import TargetResult
from ..plan.routes import steps_for
from ..plan.run_plan import Plan, plan_conversion, plan_routes
from ..progress import Progress
from ..request import RunRequest
from ..result.gate import verdict_of, why_not_made
from ..result.rows import artifact_row
from ..result.schema import ArtifactRow, RouteStatus, Status, Verdict
from ..settings import LocalSettings
from ..stages.convert import convert_ahead, convert_all, expect_frameworks
from ..workers.worker_slots import WorkerSlots
from .workspace import check_writable, close_workers, document_of, new_context, report_disk_full, write_document


@dataclass(frozen=True)
class ConvertResult:
    """The artifacts of `convert`, in `folder`."""

    artifacts: tuple[ArtifactRow, ...]
    folder: Path
    smallest: tuple[MinimalRepro, ...] = ()  # for the targets that are not there: where their routes fail

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """Pass where every target is there. Fail: its routes gave wrong answers (1), or none was left (4)."""
        return verdict_of((), self.artifacts)

    @property
    def document(self) -> dict[str, Any]:
        """convert.json."""
        return document_of(
            self.decided,
            artifacts=(tuple[ArtifactRow, ...], self.artifacts),
            smallest=(tuple[dict[str, object], ...], tuple(repro.to_json() for repro in self.smallest)),
        )


def explain(model: str, targets: Sequence[Target], requested: Collection[str] = ()) -> Plan:
    """Plan the routes from the model to each target, without running anything.

    The options in `requested` open further steps.
    """
    return plan_routes(targets, start_of(model), steps_for(requested))


def convert(
    request: RunRequest,
    model: ModelRequest,
    out: Path,
    local: LocalSettings,
    progress: Progress,
    *,
    slots: WorkerSlots | None = None,
) -> ConvertResult:
    """Write every wanted target to `out`/<target>/, by the cheapest route that verifies.

    Models that are converted at the same time share worker `slots`.
    Raises TransloadError where the model or the data cannot be taken; the failure of one target is in its row.
    """
    plan = plan_conversion(request, start_of(model.text), model.data)
    plan.require_routes()
    check_writable(out, "--out")
    for target in request.targets:
        _check_replaceable(out / target.slug)
    for reason in third_party.known_steps().refused:
        progress.note(reason)
    context = new_context(request, out, local, progress, slots)
    expect_frameworks(context, plan)
    with report_disk_full(out), close_workers(context):
        plan.write(out / "logs")
        inputs = resolve_inputs(
            context, model, probes_only=True, during_reference=partial(convert_ahead, context, plan)
        )
        with progress.stage("convert", len(request.targets)) as stage:
            results = convert_all(context, plan, inputs)
            stage.note = f"{sum(result.stored is not None for result in results)} of {len(results)} targets made"
        rows = tuple(_artifact_row(result) for result in results)
        for result in results:
            _put(result, out / result.target.slug)
        converted = ConvertResult(rows, out, _minimal_repros(context, inputs, results))
        write_document(out / "convert.json", converted.document)
    return converted


def _minimal_repros(context: Context, inputs: RunInputs, results: Sequence[TargetResult]) -> tuple[MinimalRepro, ...]:
    """Return the smallest pieces of the model at which the routes to the lost targets fail."""
    if not any(result.failures for result in results if result.stored is None):
        return ()
    with context.progress.stage("shrink") as stage:
        pieces = find_repros(context, inputs, results)
        stage.note = f"pieces that fail by themselves: {len({piece.script for piece in pieces})}, in repeat/"
    return pieces


def _check_replaceable(folder: Path) -> None:
    """Raise BadRequest where the folder for an artifact holds the user's own files."""
    if folder.is_symlink() or (folder.exists() and not (folder / RECORD).is_file() and _occupied(folder)):
        raise BadRequest(f"{folder} holds something else than an artifact", fix="name another folder with --out")


def _occupied(folder: Path) -> bool:
    return not folder.is_dir() or any(folder.iterdir())


def _put(result: TargetResult, folder: Path) -> None:
    """Put the artifact at `folder`, in place of a former run's, which goes even where there is no new one."""
    if result.stored is None:
        shutil.rmtree(folder, ignore_errors=True)  # an old copy would be taken for a new one
    else:
        copy_folder_whole(result.stored.folder, folder)


def _artifact_row(result: TargetResult) -> ArtifactRow:
    """Return a row of convert.json. An artifact that is there has been verified on its route, and nowhere else."""
    row = artifact_row(result, ())
    if result.stored is None:
        return row
    no_evidence = any(tried.route == row.route and tried.status is RouteStatus.UNVERIFIED for tried in result.tried)
    status = Status.UNVERIFIED if no_evidence else Status.VERIFIED
    return replace(row, path=f"{result.target.slug}/{PAYLOAD[result.target.format]}", status=status)


def agreement(row: ArtifactRow) -> str:
    """Return a sentence on a row of `convert`: how the artifact was verified, or why there is none."""
    if row.path is None:
        return why_not_made(row)
    return next((tried.reason for tried in row.tried if tried.route == row.route), "the model as it was given")
