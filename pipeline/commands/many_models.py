"""`convert`, `validate` and `run` over a models file: several models in flight, one table, one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...models.artifact import RECORD
from ...models.errors import BadRequest
from ...models.signature import parse_input
from ..context import LocalSettings
from ..intake.model_argument import ModelRequest
from ..model_list.list_folder import ListFolder, locked_list, request_digest
from ..model_list.list_records import ListCommand, ListResult, ModelRow, RowState
from ..model_list.model_pool import ModelJob, ModelOutcome, ModelPool
from ..model_list.models_file import ListedModel, section_of
from ..model_list.row_parts import failures_of_artifacts, failures_of_gate, rows_of_artifacts, rows_of_drift
from ..progress import Progress
from ..request import RunRequest, read_request
from ..result.schema import ArtifactRow, GateRow
from ..workers.shared_workers import SharedWorkers
from .convert import convert
from .run import run
from .validate import validate
from .workspace import check_writable, models_at_once, order_by_duration, shared_workers


@dataclass(frozen=True)
class ListOptions:
    """How a list is done. `converted`: for `validate`, the folder that an earlier `convert` of the list left."""

    out: Path
    resume: bool = False
    fail_fast: bool = False
    converted: Path | None = None


@dataclass(frozen=True)
class FinishedList:
    """The results of a list, in `folder`; `interrupt` is what stopped it."""

    result: ListResult
    folder: Path
    kept: int  # models that an earlier command had finished
    interrupt: KeyboardInterrupt | None


def do_list(
    command: ListCommand, models: Sequence[ListedModel], options: ListOptions, local: LocalSettings, progress: Progress
) -> FinishedList:
    """Do the command for every model, each in `out`/<name>/, and write models.json, report.md and index.html.
    Raises BadRequest where `out` cannot be written to, or another command works in it; what happens to a single model
    is in its row."""
    works = {model.name: _work_of(command, model, options, local) for model in models}
    rows = [_planned_row(command, model, options) for model in models]
    check_writable(options.out)
    with locked_list(options.out):
        folder = ListFolder(options.out, command, rows)
        kept = folder.keep_finished() if options.resume else 0
        if kept:
            progress.note(f"{kept} of {len(rows)} models are done already")
        jobs = [ModelJob(row, works[row.name]) for row in folder.rows if row.state is not RowState.DONE]
        requests = [works[job.row.name].request for job in jobs]
        at_once = models_at_once(requests, local, measures=command is ListCommand.RUN)
        ordered = order_by_duration(jobs, lambda job: (works[job.row.name].request, job.row.name), local, at_once)
        with shared_workers(options.out, local, progress) as workers:
            pool = ModelPool(options.out, workers, progress, folder.record, fail_fast=options.fail_fast)
            interrupt = pool.do_all(ordered, at_once) if jobs else None
        return FinishedList(folder.write(), options.out, kept, interrupt)


def _planned_row(command: ListCommand, model: ListedModel, options: ListOptions) -> ModelRow:
    extra = {"converted": str(options.converted)} if options.converted else None
    digest = request_digest(command, model, extra)
    return ModelRow(model.name, model.source, model.options.get("device"), RowState.NOT_STARTED, digest)


def _work_of(command: ListCommand, model: ListedModel, options: ListOptions, local: LocalSettings) -> _ModelWork:
    """Return what does the command for a model. Raises BadRequest where its options do not fit the command."""
    if model.is_pipeline and command is not ListCommand.RUN:
        fix = "give it a source in place of its pipeline, or use transload run"
        raise BadRequest(f"the model {model.name} is a pipeline file, which {command} does not take", fix=fix)
    if command is ListCommand.CONVERT and not model.targets:
        fix = "write to = [...] in [defaults] or the model, or give --to ('transload formats')"
        raise BadRequest(f"the model {model.name} has no target", fix=fix)
    return _ModelWork(command, _request_of(command, model), model, options, local)


def _request_of(command: ListCommand, model: ListedModel) -> RunRequest:
    sections = section_of(model, cross_check=False if command is ListCommand.CONVERT else None)
    if command is ListCommand.RUN and model.is_pipeline:
        return read_request(Path(model.root, model.source), sections)
    return read_request(None, sections).model_copy(update={"root": model.root})


@dataclass(frozen=True)
class _ModelWork:
    """A command for one model of the list."""

    command: ListCommand
    request: RunRequest
    model: ListedModel
    options: ListOptions
    local: LocalSettings

    def __call__(self, progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        """Do it, and return what it contributes to the list."""
        works = {
            ListCommand.CONVERT: self._convert, ListCommand.VALIDATE: self._validate, ListCommand.RUN: self._run,
        }  # fmt: skip
        return works[self.command](progress, workers)

    def _convert(self, progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        folder = self.options.out / self.model.name
        result = convert(self.request, self._model_request, folder, self.local, progress, workers=workers)
        rows = rows_of_artifacts(result.artifacts, result.evidence.probes)
        failures = failures_of_artifacts(result.artifacts, [piece.row for piece in result.smallest])
        verdict, status = result.decided
        return ModelOutcome(verdict, int(status), self.model.name, None, rows, failures)

    def _validate(self, progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        candidates = _artifacts_of(self.model, self.options.converted or self.options.out)
        result = validate(self.request, candidates, self._model_request, self._local_runs, progress, workers=workers)
        folder = str(result.folder.relative_to(self.options.out))
        rows, (verdict, status) = rows_of_drift(result.drift, result.gate), result.decided
        return ModelOutcome(verdict, int(status), folder, None, rows, failures_of_gate(result.gate))

    def _run(self, progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        finished = run(self.request, self._local_runs, progress, workers=workers)
        result, folder = finished.result, str(finished.folder.relative_to(self.options.out))
        rows = rows_of_artifacts(result.artifacts, result.probes, result.drift)
        lost = failures_of_artifacts([row for row in result.artifacts if row.path is None], result.smallest)
        failures = (*lost, *failures_of_gate(_rules_of(result.gate, result.artifacts), result.located))
        return ModelOutcome(result.verdict, result.exit_code, folder, f"{folder}/report.html", rows, failures)

    @property
    def _local_runs(self) -> LocalSettings:
        return replace(self.local, runs=self.options.out / self.model.name)

    @property
    def _model_request(self) -> ModelRequest:
        inputs = tuple(parse_input(text) for text in self.model.options.get("inputs") or ())
        return ModelRequest(self.model.source, inputs, data=self.model.options.get("data"))


def _rules_of(gate: Sequence[GateRow], artifacts: Sequence[ArtifactRow]) -> list[GateRow]:
    """Return the rules on artifacts that are there: the others only repeat that they are not."""
    there = {artifact.name for artifact in artifacts if artifact.path}
    return [rule for rule in gate if rule.artifact in there]


def _artifacts_of(model: ListedModel, converted: Path) -> list[str]:
    """Return the folders of a model's artifacts, as an earlier `convert` of the list left them."""
    folder = converted / model.name
    texts = sorted(str(record.parent) for record in folder.glob(f"*/{RECORD}"))
    if not texts:
        fix = "convert the list first, and name its folder with --converted"
        raise BadRequest(f"there is no artifact of {model.name} under {folder}", fix=fix)
    return texts


def explained_rows(models: Sequence[ListedModel]) -> list[Mapping[str, Any]]:
    """Return what would be done, for --explain."""
    return [
        {
            "name": model.name, "source": model.source, "device": model.options.get("device") or "auto",
            "targets": list(model.targets or ()),
        }
        for model in models
    ]  # fmt: skip
