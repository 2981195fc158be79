"""The validation stage: every artifact in every runtime that takes it, on the whole test set, in a fresh process."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...converters.conversion_records import ConversionFacts
from ...models.code_digest import entry_digest
from ...models.errors import DiskFull, TransloadError
from ...models.formats import Precision, Target
from ...models.signature import Signature
from ...models.store import Stored, digest_of_json
from ...serving.runtimes.runtime_table import RUNTIMES, SERVED_ALIKE, Runtime, runtimes_for
from ...serving.runtimes.tuning_space import RuntimeSettings, Value
from ..drift.drift_records import CheckOptions, ValidateFacts
from ..drift.rules import LEAST_SQNR_DB, judge_silence
from ..options.request import BenchSection
from ..plan.constant_actions import ExtendedReference, extend_reference, proposal
from ..plan.context import Context
from ..plan.loaded_model import ModelDescription, ServedModel
from ..plan.router import TargetResult
from ..plan.run_inputs import RunInputs, batch_sizes
from ..plan.run_plan import log_of, targets_served_alike
from ..result.check_table import CheckRows, join_check_rows, read_check_rows
from ..result.schema import DriftRow, MetricRow, Tolerance, Verdict
from ..workers.engine import Action, stopped_on_error
from ..workers.fork_server import framework_of
from ..workers.interpreters import interpreter_of, lacking
from .servers import EMBEDDED, Servers

VALIDATE = "transload.pipeline.drift.jobs:validate"
Pair = tuple[str, str]  # artifact, runtime
ANY_DEVICE = "auto"  # a model that is served elsewhere runs where its server runs it


@dataclass(frozen=True)
class CheckedArtifact:
    """An artifact in a runtime that takes it, or a served model in that of its protocol."""

    name: str  # in rows
    target: Target | None  # None: a served model
    stored: Stored
    runtime: Runtime
    precision: Precision  # that it is judged as
    served: ServedModel | None = None
    signature: Signature | None = None  # of a source, which has no artifact's record
    settings: Mapping[str, Value] = field(default_factory=dict)  # of the runtime, or of the one in our own server

    @property
    def step(self) -> str:
        """The name of the step that checks it, which its log and repeat script have too."""
        slug = re.sub(r"[^\w.-]+", "-", self.name)
        tail = f".{digest_of_json(dict(self.settings))[:6]}" if self.settings else ""
        return f"validate.{slug}.{self.runtime.name}{tail}"

    @property
    def session_settings(self) -> RuntimeSettings:
        """The settings of the session that the check itself opens: a served model's are its server's."""
        return RuntimeSettings(self.runtime.name, {} if self.runtime.served else self.settings)


@dataclass(frozen=True)
class ValidationRows:
    """Rows; the sentence of each pair that gave no answer, and of each that answered and did not pass."""

    rows: tuple[DriftRow, ...]
    failures: Mapping[Pair, str] = field(default_factory=dict)
    reasons: Mapping[Pair, str] = field(default_factory=dict)
    evidence: CheckRows = field(default_factory=CheckRows)
    outcomes: Mapping[Pair, Path] = field(default_factory=dict)  # the folders of the checks


def pairs(results: Sequence[TargetResult], runtimes: Sequence[str]) -> list[CheckedArtifact]:
    """Return every artifact with each of the runtimes that takes it."""
    return [
        CheckedArtifact(result.name, result.target, result.stored, runtime, result.judged_as or result.target.precision)
        for result in results
        if result.stored
        for runtime in runtimes_for(result.target.format, ConversionFacts.part_of(result.stored.facts).flex)
        if runtime.name in runtimes
    ]


def served_alike(results: Sequence[TargetResult], section: BenchSection) -> list[CheckedArtifact]:
    """Return the fp32 artifacts that a run asks behind one protocol beside the runtimes that it names."""
    is_default_and_lacking = section.served is None and lacking(RUNTIMES[SERVED_ALIKE])
    if SERVED_ALIKE in section.runtimes or is_default_and_lacking:
        return []
    targets = targets_served_alike(section, (result.target for result in results if result.stored))
    alike = [result for result in results if result.target in targets]
    return pairs(alike, [SERVED_ALIKE])


def device_for(runtime: Runtime, device: str) -> str:
    """Return the run's device where the runtime has it, else the CPU."""
    return device if device.partition(":")[0] in runtime.devices else "cpu"


def validate_all(
    context: Context,
    inputs: RunInputs,
    results: Sequence[TargetResult],
    servers: Servers,
    *,
    served: Sequence[CheckedArtifact] = (),
    with_settings: Callable[[CheckedArtifact], CheckedArtifact] = lambda checked: checked,
) -> ValidationRows:
    """Compare every artifact, in every wanted runtime that takes it, with the reference on the whole test set.
    `served` are models behind URLs, which are compared in the same way. `with_settings` gives an artifact the settings
    that it was tuned to."""
    checked_pairs: dict[Pair, _CheckedPair] = {}
    with stopped_on_error(context.executor):
        checks = [
            (checked, _begin(context, inputs, checked, servers))
            for checked in (*map(with_settings, pairs(results, context.request.validate_.runtimes)), *served)
        ]
        for checked, check in checks:
            checked_pairs[checked.name, checked.runtime.name] = _wait(context, inputs.model, checked, check, servers)
    return ValidationRows(
        tuple(row for pair in checked_pairs.values() for row in pair.drift),
        {pair: checked.silence for pair, checked in checked_pairs.items() if checked.silence},
        {pair: checked.reason for pair, checked in checked_pairs.items() if checked.reason},
        join_check_rows(checked.evidence for checked in checked_pairs.values()),
        {pair: checked.folder for pair, checked in checked_pairs.items() if checked.folder},
    )


@dataclass(frozen=True)
class _CheckedPair:
    """The rows of one pair, the sentence on its answers, and that on calls without an answer."""

    drift: Sequence[DriftRow]
    reason: str | None = None
    silence: str | None = None
    evidence: CheckRows = field(default_factory=CheckRows)
    folder: Path | None = None  # of the check


def check_settings(
    context: Context, inputs: RunInputs, checked: CheckedArtifact, servers: Servers
) -> tuple[Verdict, str | None]:
    """Compare an artifact with its settings with the reference, as `validate_all` does. Return the worst verdict, and
    the sentence on what did not pass."""
    checked_pair = _wait(context, inputs.model, checked, _begin(context, inputs, checked, servers), servers)
    verdicts = [row.verdict for row in checked_pair.drift]
    order = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
    worst = min(verdicts, key=order.index)
    return worst, checked_pair.silence or checked_pair.reason


def _begin(context: Context, inputs: RunInputs, checked: CheckedArtifact, servers: Servers) -> Future[Stored] | str:
    """Begin the check of a pair, or return the sentence that says why there is none."""
    runtime = checked.runtime
    if reason := lacking(runtime):
        return f"{runtime.name} {reason}"
    try:
        check = context.executor.submit(_action(context, inputs, checked, servers))
    except DiskFull:
        raise
    except TransloadError as error:
        return error.what
    check.add_done_callback(lambda _: context.progress.step(f"{checked.name} in {runtime.name}"))
    return check


def _wait(
    context: Context, model: ModelDescription, checked: CheckedArtifact, check: Future[Stored] | str, servers: Servers
) -> _CheckedPair:
    """Wait for a check and return its rows."""
    silent = _no_answer(context, model, checked.name, checked.runtime.name)
    is_remote = servers.is_remote(checked.runtime, checked.served)
    if is_remote:
        silent = replace(silent, verdict=Verdict.INCONCLUSIVE)
    if isinstance(check, str):
        return _CheckedPair([silent], silence=check)
    log = log_of(checked.step)
    try:
        stored = check.result()
    except DiskFull:
        raise
    except TransloadError as error:
        return _CheckedPair([replace(silent, log=log)], silence=judge_silence(error, is_remote=is_remote)[0])
    facts = ValidateFacts.from_json(stored.facts)
    own = {"artifact": checked.name, "log": log, "settings": dict(checked.settings)}
    rows = [_drift_row(row, **own) for row in facts.rows]
    evidence = read_check_rows(facts.evidence, checked.name)
    return _CheckedPair(rows, facts.reason or facts.note, facts.silence, evidence, stored.folder)


def _action(context: Context, inputs: RunInputs, checked: CheckedArtifact, servers: Servers) -> Action:
    stored, runtime, served = checked.stored, checked.runtime, checked.served
    device = ANY_DEVICE if served else device_for(runtime, context.device)
    settings = checked.session_settings
    server = servers.use(stored, device, runtime, served, settings=checked.settings if runtime.served else {})
    interpreter = interpreter_of(runtime)
    request, host = context.request.validate_, served.url.host if served else None
    is_fp32 = checked.target is None or checked.target.precision is Precision.FP32
    extended = _reference_of(context, inputs, checked)
    action = Action(
        name=checked.step,
        entry=VALIDATE,
        inputs={"artifact": stored, "data": inputs.data, "reference": extended.reference},
        options=CheckOptions(
            **inputs.model.recipe_options,
            metric=inputs.metric.metric,
            server=server.kind if server else None,
            model=server.model if server else None,
            signature=checked.signature or (served.signature if served else None),
            runtime=runtime.name,
            device=device,
            threads=settings.threads(1),
            settings=settings.keywords,
            batches=batch_sizes(context, inputs.model),
            constants=extended.constants,
            precision=str(checked.precision),
            tolerance_sqnr_db=request.sqnr_db if is_fp32 else None,
            allowed_loss=inputs.metric.allowed_loss,
            require_non_finite=request.non_finite == "require",
        ).to_json(),
        requires=runtime.requires,
        python=interpreter.path,
        # A library that was imported ahead has read its environment already.
        framework="" if settings.needs_new_process else framework_of(runtime.requires),
        tools=interpreter.tools,
        code=inputs.model.code + inputs.metric.code + entry_digest(runtime.entry),
        root=inputs.model.root,
        reads=(*inputs.model.reads, *(inputs.metric.metric.reads if inputs.metric.metric else ())),
        limits=context.limits(device=device, loopback=runtime.served, host=host, compiles=runtime.compiles),
    )
    if server is None:
        return action
    return replace(
        action,
        services=lambda: nullcontext(server.addresses()),
        server=server.start,
        volatile=server.kind != "embedded",  # the answers of another server depend on more than its name
        code=action.code + entry_digest(EMBEDDED),
    )


def _reference_of(context: Context, inputs: RunInputs, checked: CheckedArtifact) -> ExtendedReference:
    """Return the reference with answers near the copy's constants; a server shows none, and a copy in a reduced
    precision is not asked there."""
    plain = ExtendedReference(inputs.reference)
    if checked.served is not None or checked.runtime.served or checked.precision is not Precision.FP32:
        return plain
    copy = {"artifact": checked.stored, "data": inputs.data, "reference": inputs.reference}
    propose = proposal(checked.step.replace("validate.", "constants.", 1), copy, checked.runtime, context.limits())
    return extend_reference(context.executor.perform, inputs.recorder, propose) or plain


def _no_answer(context: Context, model: ModelDescription, artifact: str, runtime: str) -> DriftRow:
    """Return the row of a pair that gave no answers at all."""
    return DriftRow(
        artifact=artifact,
        runtime=runtime,
        batch=max(batch_sizes(context, model)),
        samples=0,
        max_abs=None,
        rms=None,
        cosine=None,
        sqnr_db=None,
        non_finite=None,
        tolerance=Tolerance(context.request.validate_.sqnr_db or LEAST_SQNR_DB[Precision.FP32], None),
        verdict=Verdict.FAIL,
        metric=None,
    )


def _drift_row(row: Mapping[str, Any], **own: Any) -> DriftRow:
    """Return a row as a worker has told it, with what is its `own` here."""
    metric = row["metric"] and MetricRow(**{**row["metric"], "ci95": tuple(row["metric"]["ci95"])})
    tolerance, verdict = Tolerance(**row["tolerance"]), Verdict(row["verdict"])
    return DriftRow(**{**row, **own, "tolerance": tolerance, "verdict": verdict, "metric": metric})
