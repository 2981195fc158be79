"""The command `validate`: compare an artifact's outputs with those of the model that it was made from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...models.errors import Exit
from ...models.formats import Format
from ..context import LocalSettings
from ..intake.loaded_model import LoadedModel
from ..intake.model_argument import ModelRequest, candidate_request, kind_of, without_inputs_of
from ..intake.run_inputs import load_model, resolve_inputs
from ..plan.router import TargetResult
from ..plan.run_plan import Route
from ..progress import Progress
from ..request import RunRequest
from ..result.check_rows import CheckRows
from ..result.gate import GateRules, gate, verdict_of
from ..result.run_folder import artifact_row
from ..result.schema import DriftRow, GateRow, Verdict
from ..stages.servers import Servers
from ..stages.validate import validate_all
from .candidates import check_candidate, check_operators, check_same_inputs
from .workspace import close_workers, document_of, new_run_context, report_disk_full, write_document


@dataclass(frozen=True)
class ValidateResult:
    """The rows and rules of `validate`, with the verdict."""

    drift: tuple[DriftRow, ...]
    gate: tuple[GateRow, ...]
    decided: tuple[Verdict, Exit]
    folder: Path
    note: str | None = None  # on the metric
    evidence: CheckRows = field(default_factory=CheckRows)

    @property
    def document(self) -> dict[str, Any]:
        """validate.json."""
        return document_of(self.decided, drift=self.drift, gate=self.gate, **vars(self.evidence))


def validate(
    request: RunRequest, candidate: str, against: ModelRequest, local: LocalSettings, progress: Progress
) -> ValidateResult:
    """Compare the candidate's outputs with the model's, in every wanted runtime that takes the candidate.
    Leaves a folder with logs, a script per step and validate.json.
    Raises TransloadError where one of the two cannot be loaded, or they take different inputs."""
    runtimes = request.validate_.runtimes
    check_candidate(candidate, runtimes)
    kind_of(against.text)
    context = new_run_context(request, f"validate-{Path(candidate).stem}", local, progress)
    with report_disk_full(context.folder), close_workers(context):
        loaded = load_model(context, candidate_request(candidate, against.inputs))
        check_operators(candidate, loaded, runtimes)
        inputs = resolve_inputs(context, without_inputs_of(candidate, against))
        check_same_inputs(candidate, loaded.model.signature, against.text, inputs.model.signature)
        if isinstance(kind_of(candidate), Format) and request.validate_.allowed_loss is not None:
            inputs = replace(inputs, metric=inputs.metric.for_unknown_precision())
        target = _target_result(loaded)
        with Servers(context) as servers, progress.stage("validate"):
            validated = validate_all(context, inputs, [target], servers)
        row = artifact_row(target, validated.rows)
        rules = GateRules(device=context.device, runtimes=tuple(sorted(set(runtimes))))
        rows = gate(rules, [row], validated.rows, (), failures=validated.failures, reasons=validated.reasons)
        decided = verdict_of(rows, [row])
        note = inputs.metric.note
        result = ValidateResult(validated.rows, rows, decided, context.folder, note, validated.evidence)
        write_document(context.folder / "validate.json", result.document)
    return result


def _target_result(loaded: LoadedModel) -> TargetResult:
    """Return the candidate in the form in which a conversion reports a target."""
    if loaded.start is None:
        raise ValueError(f"{loaded.model.name} is a source")
    return TargetResult(loaded.start, loaded.stored, Route(()), (), 0.0, ())
