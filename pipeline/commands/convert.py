"""The command `convert`: every wanted target of a model in a folder, or the reason why it is not there.

Several models are converted side by side, each in a folder of its own, with one convert.json.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from ...converters.third_party import KNOWN_STEPS
from ...models.artifact import RECORD
from ...models.atomic_files import copy_folder_whole
from ...models.errors import BadRequest, Exit, TransloadError
from ...models.formats import Target
from ...models.store import Stored
from ...models.user_python.inside.conversation import TENSORFLOW
from ..extras.provenance.build_facts import build_of_convert
from ..extras.provenance.statement import statement_text
from ..minimal_repro.search import MinimalRepro
from ..options.request import RunRequest
from ..plan.artifact_rows import artifact_row
from ..plan.context import LocalSettings
from ..plan.model_argument import ModelRequest, start_of
from ..plan.recorded_source import write_recorded_source
from ..plan.router import TargetResult
from ..plan.row_names import plain_name
from ..plan.run_inputs import resolve_inputs
from ..plan.run_plan import Plan, plan_conversion, plan_routes, steps_for
from ..plan.source_python import with_source_python
from ..progress.progress import Progress
from ..result.check_table import CheckRows, join_check_rows
from ..result.gate import verdict_of, why_not_made
from ..result.schema import ArtifactRow, RouteStatus, Status, Verdict
from ..show.card.card_facts import card_of
from ..show.card.card_folder import write_card
from ..show.card.card_records import Card
from ..show.card.model_facts import facts_of_model, model_name
from ..workers.shared_workers import SharedWorkers
from .golden import write_golden
from .models_in_flight import models_at_once, order_by_duration
from .stages.convert_targets import convert_ahead, convert_all, expect_frameworks, find_pieces
from .workspace import (
    REFUSED,
    check_writable,
    close_workers,
    document_of,
    new_context,
    remove_if_unused,
    report_disk_full,
    shared_workers,
    write_document,
)


@dataclass(frozen=True)
class ConvertResult:
    """The artifacts of `convert`, in `folder`."""

    artifacts: tuple[ArtifactRow, ...]
    folder: Path
    smallest: tuple[MinimalRepro, ...] = ()  # for the targets that are not there: where their routes fail
    evidence: CheckRows = field(default_factory=CheckRows)
    doubts: tuple[str, ...] = ()  # that the verdict is under

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """The verdict and the exit status.

        Pass: every target is there, verified or degraded. Fail: a target failed (1), or no route to it was left (4).
        Inconclusive: a target is unverified (3)."""
        return verdict_of((), self.artifacts)

    @property
    def document(self) -> dict[str, Any]:
        """convert.json."""
        smallest = [repro.to_json() for repro in self.smallest]
        rows = {"artifacts": self.artifacts, "smallest": smallest, "doubts": self.doubts}
        return document_of(self.decided, **rows, **vars(self.evidence))

    def _repr_html_(self) -> str:
        from ..show.notebook_html import render_conversion

        return render_conversion(self.decided[0], {"": self.artifacts}, agreement, self.doubts, self.folder)


def explain(
    model: str, targets: Sequence[Target], requested: Collection[str] = (), *, user_framework: str = ""
) -> Plan:
    """Plan the routes from the model to each target, without running anything.
    The options in `requested` open further steps; so does `user_framework`, that of a model in another interpreter."""
    start = None if user_framework == TENSORFLOW else start_of(model)  # a file of Keras is loaded there
    return plan_routes(targets, start, steps_for(requested, user_framework=user_framework))


def convert(
    request: RunRequest,
    model: ModelRequest,
    out: Path,
    local: LocalSettings,
    progress: Progress,
    *,
    workers: SharedWorkers | None = None,
) -> ConvertResult:
    """Write every wanted target to `out`/<target>/, by the cheapest route that verifies.
    Models that are converted at the same time share `workers`.
    Raises TransloadError where the model or the data cannot be taken; the failure of one target is in its row."""
    model = with_source_python(request, model, progress)
    user_framework = model.python.framework if model.python else ""
    plan = plan_conversion(request, start_of(model.text), model.data, user_framework=user_framework)
    plan.require_routes()
    with remove_if_unused(out, kept_logs=None if workers else local.store / REFUSED):
        check_writable(out)
        for target in request.targets:
            _check_replaceable(out / target.slug)
        for reason in KNOWN_STEPS.refused:
            progress.note(reason)
        context = new_context(request, out, local, progress, workers)
        expect_frameworks(context, plan)
        with report_disk_full(out), close_workers(context):
            plan.write(out / "logs")
            ahead = partial(convert_ahead, context, plan)
            inputs = resolve_inputs(context, model, probes_only=True, during_reference=ahead)
            results = convert_all(context, plan, inputs)
            rows = tuple(_artifact_row(result) for result in results)
            known = facts_of_model(model.text, inputs.model, inputs.data)
            name, build = model_name(model.text, inputs.model), build_of_convert(request, model, inputs, known)
            for result, row in zip(results, rows, strict=True):
                folder = out / result.target.slug
                if result.stored is None:
                    shutil.rmtree(folder, ignore_errors=True)  # an old copy would be taken for a new one
                    continue
                card = card_of(result, row, name=name, model=known, evidence=result.evidence)
                note = partial(write_recorded_source, place=folder, request=request, model=model, inputs=inputs)
                keep = partial(write_golden, context, inputs, result, card)
                state = partial(statement_text, card=card, build=build, signer=context.signer)
                _put(result.stored, card, folder, state, (note, keep))
            evidence = join_check_rows(result.evidence for result in results)
            doubts = (*context.doubts, *inputs.doubts)
            converted = ConvertResult(rows, out, find_pieces(context, inputs, results), evidence, doubts)
            write_document(out / "convert.json", converted.document)
    return converted


def _check_replaceable(folder: Path) -> None:
    """Raise BadRequest where the folder for an artifact holds the user's own files."""
    occupied = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if folder.is_symlink() or (occupied and not (folder / RECORD).is_file()):
        raise BadRequest(f"{folder} holds something else than an artifact", fix="name another folder with --out")


def _put(
    stored: Stored,
    card: Card,
    folder: Path,
    state: Callable[[Mapping[str, str]], str],
    writers: Sequence[Callable[[Path], None]],
) -> None:
    """Put the artifact at `folder` with its card, its statement and what `writers` add, in place of a former one."""

    def add(scratch: Path) -> None:
        for write in writers:
            write(scratch)
        write_card(scratch, card, state, digest=stored.digest)

    copy_folder_whole(stored.folder, folder, add=add)


def _artifact_row(result: TargetResult) -> ArtifactRow:
    """Return a row of convert.json. An artifact that is there has been verified on its route, and nowhere else."""
    row = artifact_row(result, ())
    if result.stored is None:
        return row
    route_status = next((tried.status for tried in result.tried if tried.route == row.route), RouteStatus.VERIFIED)
    status = Status(route_status)
    return replace(row, path=f"{result.target.slug}/{result.target.format.spec.payload}", status=status)


def agreement(row: ArtifactRow) -> str:
    """Return a sentence on a row of `convert`: how the artifact was verified, or why there is none."""
    if row.path is None:
        return why_not_made(row)
    return next((tried.reason for tried in row.tried if tried.route == row.route), "the model as it was given")


_NO_EVIDENCE: dict[str, list[Any]] = {part.name: [] for part in fields(CheckRows)}
_WORST_FIRST = (Exit.USAGE, Exit.TOOLCHAIN, Exit.FAIL, Exit.INCONCLUSIVE, Exit.PASS)


@dataclass(frozen=True)
class ConvertedModel:
    """The result of one model of several, in `folder`; a model that could not be taken has its `error` instead."""

    name: str
    model: str  # the text by which the user named it
    folder: Path
    converted: ConvertResult | None
    error: TransloadError | None = None

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """Verdict over its targets; where it could not be taken, the error's own status."""
        if self.converted:
            return self.converted.decided
        return Verdict.FAIL, self.error.exit_code if self.error else Exit.USAGE

    @property
    def document(self) -> dict[str, Any]:
        """Its part of convert.json."""
        error = {"what": self.error.what, "fix": self.error.fix} if self.error else None
        parts = (
            self.converted.document
            if self.converted
            else {"artifacts": [], "smallest": [], "doubts": [], **_NO_EVIDENCE}
        )
        verdict, status = self.decided
        row = {"name": self.name, "model": self.model, "verdict": str(verdict), "exit_code": int(status)}
        return {
            **row,
            "error": error,
            **{name: parts[name] for name in ("artifacts", "smallest", "doubts", *_NO_EVIDENCE)},
        }


@dataclass(frozen=True)
class ConvertManyResult:
    """The results of several models, in `folder`/<name>/."""

    models: tuple[ConvertedModel, ...]
    folder: Path

    @property
    def decided(self) -> tuple[Verdict, Exit]:
        """The worst verdict: a model that could not be taken, then no route left, wrong answers, no evidence."""
        return min((model.decided for model in self.models), key=lambda decided: _WORST_FIRST.index(decided[1]))

    @property
    def document(self) -> dict[str, Any]:
        """convert.json; the paths of a model's artifacts are relative to the folder of its name."""
        return {**document_of(self.decided), "models": [model.document for model in self.models]}

    def _repr_html_(self) -> str:
        from ..show.notebook_html import render_conversion

        rows = {model.name: model.converted.artifacts if model.converted else () for model in self.models}
        notes = [f"{model.name}: {model.error.what}; {model.error.fix}" for model in self.models if model.error]
        return render_conversion(self.decided[0], rows, agreement, notes, self.folder)


def convert_models(
    requests: Sequence[tuple[RunRequest, ModelRequest]], out: Path, local: LocalSettings, progress: Progress
) -> ConvertManyResult:
    """Convert every model to `out`/<name>/, as `convert` does for one. They share workers.
    Raises BadRequest where `out` cannot be written to; the failure of one model is in its row."""
    check_writable(out)
    names = unique_names([model.text for _, model in requests])
    width = max(map(len, names))

    def convert_model(workers: SharedWorkers, name: str, request: RunRequest, model: ModelRequest) -> ConvertedModel:
        folder, own_progress = out / name, progress.of(name, width)
        try:
            result = convert(request, model, folder, local, own_progress, workers=workers)
        except TransloadError as error:
            own_progress.note(error.what)
            return ConvertedModel(name, model.text, folder, None, error)
        return ConvertedModel(name, model.text, folder, result)

    pairs = dict(zip(names, requests, strict=True))
    at_once = models_at_once((request for request, _ in requests), local)
    order = order_by_duration(names, lambda name: (pairs[name][0], name), local, at_once)
    with shared_workers(out, local, progress) as workers, ThreadPoolExecutor(min(at_once, len(requests))) as pool:
        futures = {name: pool.submit(convert_model, workers, name, *pairs[name]) for name in order}
        try:
            result = ConvertManyResult(tuple(futures[name].result() for name in names), out)
        except BaseException:
            for future in futures.values():
                future.cancel()
            workers.stop()
            raise
    write_document(out / "convert.json", result.document)
    return result


def unique_names(models: Sequence[str]) -> list[str]:
    """Return a folder name for each model, as `digits-cnn` or `net-Net`; equal names get numbers.
    Raises BadRequest where a model is named twice."""
    model_by_name: dict[str, str] = {}
    for text in models:
        if text in model_by_name.values():
            raise BadRequest(f"the model {text} is named twice", fix="name every model once")
        plain = plain_name(text)
        numbered = (f"{plain}-{number}" for number in count(2))
        model_by_name[next(name for name in chain([plain], numbered) if name not in model_by_name)] = text
    return list(model_by_name)
