"""`convert`, `validate` and `run` over a models file: several models in flight, one table, one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..plan.context import LocalSettings
from ..plan.models_file import ListedModel
from ..progress.progress import Progress
from ..result.list_records import ListCommand, ListResult, ModelRow, RowState
from .model_list.list_folder import ListFolder, locked_list, request_digest
from .model_list.model_pool import ModelJob, ModelPool
from .model_work import ListOptions, ModelWork, work_of
from .models_in_flight import models_at_once, order_by_duration
from .workspace import check_writable, shared_workers


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
    works = {model.name: work_of(command, model, options, local) for model in models}
    rows = [_planned_row(command, model, options) for model in models]
    check_writable(options.out)
    with locked_list(options.out):
        folder = ListFolder(options.out, command, rows)
        kept = folder.keep_finished() if options.resume else 0
        if kept:
            progress.note(f"{kept} of {len(rows)} models are done already")
        left = [works[row.name] for row in folder.rows if row.state is not RowState.DONE]
        at_once = models_at_once((work.request for work in left), local, measures=command is ListCommand.RUN)
        ordered = order_by_duration(left, lambda work: (work.request, work.model.name), local, at_once)
        interrupt = _do_models(ordered, folder, options, local, progress, at_once=at_once) if left else None
        return FinishedList(folder.write(), options.out, kept, interrupt)


def _do_models(
    works: Sequence[ModelWork], folder: ListFolder, options: ListOptions, local: LocalSettings, progress: Progress, *,
    at_once: int,
) -> KeyboardInterrupt | None:  # fmt: skip
    """Do the models, `at_once` at a time. Return the interrupt that stopped them, if one did."""
    rows = {row.name: row for row in folder.rows}
    with shared_workers(options.out, local, progress) as workers:
        jobs = [ModelJob(rows[work.model.name], work) for work in works]
        pool = ModelPool(options.out, workers, progress, folder.record, fail_fast=options.fail_fast)
        return pool.do_all(jobs, at_once)


def _planned_row(command: ListCommand, model: ListedModel, options: ListOptions) -> ModelRow:
    extra = {"converted": str(options.converted)} if options.converted else None
    digest = request_digest(command, model, extra)
    return ModelRow(model.name, model.source, model.options.get("device"), RowState.NOT_STARTED, digest)


def explained_rows(models: Sequence[ListedModel]) -> list[Mapping[str, Any]]:
    """Return what would be done, for --explain."""
    return [
        {
            "name": model.name, "source": model.source, "device": model.options.get("device") or "auto",
            "targets": list(model.targets or ()),
        }
        for model in models
    ]  # fmt: skip
