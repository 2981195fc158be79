"""The command `validate`: compare the outputs of artifacts with those of the model that they were made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...models.errors import Exit
from ...models.formats import Format, Precision
from ...models.job_records import DataFacts
from ...models.signature import ValueRange
from ...models.user_python.inside.conversation import TENSORFLOW
from ..measure.bench.tuned_settings import tuned_settings
from ..measure.servers import Servers
from ..measure.validate_stage import CheckedArtifact, device_for, validate_all
from ..options.request import RunRequest
from ..plan.artifact_rows import artifact_row, served_row
from ..plan.context import Context, LocalSettings
from ..plan.loaded_model import LoadedModel, common_ranges
from ..plan.model_argument import ModelRequest, kind_of, reference_request
from ..plan.router import TargetResult
from ..plan.run_inputs import RunInputs, resolve_inputs
from ..plan.run_plan import Route
from ..plan.served_model import fit_served
from ..plan.source_python import with_source_python
from ..progress.progress import Progress
from ..result.check_table import CheckRows
from ..result.gate import GateRules, gate, verdict_of
from ..result.schema import DriftRow, GateRow, Verdict
from ..workers.shared_workers import SharedWorkers
from .candidates import (
    can_locate,
    check_candidate,
    check_operators,
    check_same_inputs,
    fitting_runtimes,
    has_same_inputs,
    labels_of,
    load_candidate,
)
from .stages.own_int8 import compare_with_own, leave_open
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
    diverging: tuple[str, ...] = ()  # candidates, as they were named, in which `locate` finds what is wrong
    doubts: tuple[str, ...] = ()  # that the verdict is under
    model: str = ""  # that they were compared with
    recorded_source: Mapping[str, str] | None = None  # where a record named the model

    @property
    def document(self) -> dict[str, Any]:
        """validate.json."""
        rows = {"drift": self.drift, "gate": self.gate, "doubts": self.doubts}
        return {
            **document_of(self.decided, **rows, **vars(self.evidence)), "recorded_source": self.recorded_source
        }  # fmt: skip

    def _repr_html_(self) -> str:
        from ..show.notebook_html import render_drift

        notes = [*([self.note] if self.note else []), *self.doubts]
        return render_drift(self.decided[0], self.drift, self.gate, notes, self.folder)


def validate(
    request: RunRequest, candidates: Sequence[str], against: ModelRequest, local: LocalSettings, progress: Progress,
    *, workers: SharedWorkers | None = None,
) -> ValidateResult:  # fmt: skip
    """Compare the outputs of every candidate with the model's, in every wanted runtime that takes the candidate.
    Leaves a folder with logs, a script per step and validate.json. Models that are validated at once share `workers`.
    Raises TransloadError where one of the models cannot be loaded, or they take different inputs."""
    runtimes = request.validate_.runtimes
    for text in candidates:
        check_candidate(text, runtimes)
    kind_of(against.text)
    against = with_source_python(request, against, progress)
    context = new_run_context(request, f"validate-{Path(candidates[0]).stem}", local, progress, workers=workers)
    with report_disk_full(context.folder), close_workers(context):
        loaded = [load_candidate(context, text, against.inputs) for text in candidates]
        for text, candidate in zip(candidates, loaded, strict=True):
            check_operators(text, candidate, runtimes)
        reference = reference_request(candidates[0], against, loaded[0].model.signature.inputs)
        within = common_ranges(loaded)
        inputs = resolve_inputs(context, reference, within=within)
        loaded = [fit_served(candidate, inputs.model.signature) for candidate in loaded]
        for text, candidate in zip(candidates, loaded, strict=True):
            ours, theirs = candidate.model.signature, inputs.model.signature
            check_same_inputs(text, ours, against.text, theirs, may_fix_batch=True)
        labels = labels_of(candidates, loaded)
        named = list(zip(candidates, labels, loaded, strict=True))
        has_loss = request.validate_.allowed_loss is not None
        targets = [_target_result(*row, has_loss=has_loss) for row in named if not row[2].served]
        served = [_served_check(*row[1:], has_loss=has_loss) for row in named if row[2].served]
        with Servers(context) as servers, progress.stage("validate"):
            with_settings = partial(_with_kept_settings, context, dict(zip(labels, candidates, strict=True)))
            validated = validate_all(context, inputs, targets, servers, served=served, with_settings=with_settings)
            validated = leave_open(inputs, targets, validated)
            lossy, notes = compare_with_own(context, inputs, targets, validated.rows, servers)
        artifacts = [artifact_row(target, validated.rows) for target in targets]
        artifacts += [served_row(check.name, validated.rows) for check in served]
        rules = GateRules(device=context.device, runtimes=tuple(sorted(set(runtimes))))
        rows = gate(rules, artifacts, validated.rows, (), failures=validated.failures, reasons=validated.reasons)
        decided = verdict_of(rows, artifacts)
        wrong = {row.artifact for row in validated.rows if row.verdict is Verdict.FAIL and row.max_abs is not None}
        diverging = tuple(
            text for text, label, candidate in named
            if label in wrong and can_locate(text, against.text) and not _is_keras_there(against)
            and has_same_inputs(candidate.model.signature, inputs.model.signature)
        )  # fmt: skip
        note = "; ".join(filter(None, [inputs.metric.note, *notes])) or None
        result = ValidateResult(
            validated.rows, rows, decided, context.folder, note, validated.evidence, diverging,
            (*context.doubts, *inputs.doubts, *_narrow_doubts(inputs, within), *lossy), against.text,
            against.recorded_source,
        )  # fmt: skip
        write_document(context.folder / "validate.json", result.document)
    return result


def _narrow_doubts(inputs: RunInputs, within: Mapping[str, ValueRange]) -> list[str]:
    """Say that random samples were drawn within the ranges of an int8 file, and beyond them nothing was asked."""
    if not DataFacts.from_json(inputs.data.facts).random:
        return []
    return [
        f"{spec.name} was asked within {within[spec.name]} alone, which the int8 copy was calibrated on: "
        "give samples of yours, --data FILE.npz"
        for spec in inputs.model.signature.inputs
        if spec.name in within and spec.values is None
    ]


def _is_keras_there(model: ModelRequest) -> bool:
    return model.python is not None and model.python.framework == TENSORFLOW


def _with_kept_settings(context: Context, places: Mapping[str, str], checked: CheckedArtifact) -> CheckedArtifact:
    """Return an artifact with the settings that are kept beside it, where they hold here; what is served has the
    defaults."""
    if context.request.validate_.untuned:
        return checked
    device = device_for(checked.runtime, context.device)
    return replace(checked, settings=tuned_settings(Path(places[checked.name]), checked.runtime, device, None).settings)


def _target_result(text: str, label: str, loaded: LoadedModel, *, has_loss: bool) -> TargetResult:
    """Return the candidate in the form in which a conversion reports a target.
    A file without a record may be of any precision: an allowed loss judges it as the lowest one, and so does a file
    that quantises its inputs."""
    if loaded.start is None:
        raise ValueError(f"{loaded.model.name} is a source")
    is_int8 = has_loss or loaded.is_quantised
    judged_as = Precision.INT8 if is_int8 and isinstance(kind_of(text), Format) else None
    return TargetResult(loaded.start, loaded.stored, Route(()), label=label, judged_as=judged_as)


def _served_check(label: str, loaded: LoadedModel, *, has_loss: bool) -> CheckedArtifact:
    """Return the check of a served model, which is judged as a file without a record is."""
    (runtime,) = fitting_runtimes(loaded)
    judged_as = Precision.INT8 if has_loss else Precision.FP32
    return CheckedArtifact(label, None, loaded.stored, runtime, judged_as, loaded.served)
