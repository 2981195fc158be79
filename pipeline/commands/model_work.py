"""A command for one model of a list, and the part of the list's result that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...models.artifact import RECORD
from ...models.errors import BadRequest
from ...models.signature import parse_input
from ..options.request import RunRequest, read_request
from ..plan.context import LocalSettings
from ..plan.model_argument import ModelRequest
from ..plan.models_file import ListedModel, section_of
from ..progress.progress import Progress
from ..result.list_records import ListCommand
from ..result.schema import ArtifactRow, GateRow
from ..workers.shared_workers import SharedWorkers
from .convert import convert
from .model_list.list_row import failures_of_artifacts, failures_of_gate, rows_of_artifacts, rows_of_drift
from .model_list.model_pool import ModelOutcome
from .run import run
from .validate import validate


@dataclass(frozen=True)
class ListOptions:
    """How a list is done. `converted`: for `validate`, the folder that an earlier `convert` of the list left."""

    out: Path
    resume: bool = False
    fail_fast: bool = False
    converted: Path | None = None


def work_of(command: ListCommand, model: ListedModel, options: ListOptions, local: LocalSettings) -> ModelWork:
    """Return the work of a command for a model. Raises BadRequest where the model's options do not fit the command."""
    if model.is_pipeline and command is not ListCommand.RUN:
        fix = "give it a source in place of its pipeline, or use transload run"
        raise BadRequest(f"the model {model.name} is a pipeline file, which {command} does not take", fix=fix)
    if command is ListCommand.CONVERT and not model.targets:
        fix = "write to = [...] in [defaults] or the model, or give --to ('transload formats')"
        raise BadRequest(f"the model {model.name} has no target", fix=fix)
    return ModelWork(command, _request_of(command, model), model, options, local)


def _request_of(command: ListCommand, model: ListedModel) -> RunRequest:
    sections = section_of(model, cross_check=False if command is ListCommand.CONVERT else None)
    if command is ListCommand.RUN and model.is_pipeline:
        return read_request(Path(model.root, model.source), sections)
    return read_request(None, sections).model_copy(update={"root": model.root})


@dataclass(frozen=True)
class ModelWork:
    """A command for one model of the list."""

    command: ListCommand
    request: RunRequest
    model: ListedModel
    options: ListOptions
    local: LocalSettings

    def __call__(self, progress: Progress, workers: SharedWorkers) -> ModelOutcome:
        """Do the command for the model; return its part of the list's result."""
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
