"""The validation stage: every artifact in every runtime that takes it, on the whole test set, in a fresh process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...models.code_digest import entry_digest
from ...models.errors import DiskFull, TransloadError
from ...models.formats import Precision
from ...serving.runtimes.runtime_table import Runtime, runtimes_for
from ..context import Context
from ..intake.loaded_model import ModelDescription
from ..intake.reference_outputs import batch_sizes
from ..intake.run_inputs import RunInputs
from ..plan.router import TargetResult
from ..result.gate import answered
from ..result.schema import DriftRow, MetricRow, Tolerance, Verdict
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from ..workers.interpreters import interpreter_of, lacking
from .servers import EMBEDDED, Servers

VALIDATE = "transload.pipeline.drift.jobs:validate"
Pair = tuple[str, str]  # artifact, runtime


@dataclass(frozen=True)
class Validated:
    """Rows; the sentence of each pair that gave no answer, and of each that answered and did not pass."""

    rows: tuple[DriftRow, ...]
    failures: Mapping[Pair, str] = field(default_factory=dict)
    reasons: Mapping[Pair, str] = field(default_factory=dict)


def pairs(made: Sequence[TargetResult], wanted: Sequence[str]) -> list[tuple[TargetResult, Runtime]]:
    """Every artifact with every wanted runtime that takes it."""
    return [
        (each, runtime)
        for each in made
        if each.stored
        for runtime in runtimes_for(each.target.format, each.stored.facts.get("flex", ()))
        if runtime.name in wanted
    ]


def device_for(runtime: Runtime, device: str) -> str:
    """The run's device where the runtime has it, else the CPU."""
    return device if device.partition(":")[0] in runtime.devices else "cpu"


def validate_all(context: Context, prepared: RunInputs, made: Sequence[TargetResult], servers: Servers) -> Validated:
    """Drift of every pair."""

    def one(pair: tuple[TargetResult, Runtime]) -> tuple[list[DriftRow], str | None]:
        each, runtime = pair
        found = _validate(context, prepared, each, runtime, servers)
        context.progress.step(f"{each.target} in {runtime.name}")
        return found

    todo = pairs(made, context.request.validate_.runtimes)
    rows: list[DriftRow] = []
    failures: dict[Pair, str] = {}
    reasons: dict[Pair, str] = {}
    for (each, runtime), (found, sentence) in zip(todo, context.side_by_side(one, todo), strict=True):
        rows += found
        if sentence:
            told = reasons if all(answered(row) for row in found) else failures
            told[str(each.target), runtime.name] = sentence
    return Validated(tuple(rows), failures, reasons)


def _validate(
    context: Context, prepared: RunInputs, made: TargetResult, runtime: Runtime, servers: Servers
) -> tuple[list[DriftRow], str | None]:
    target = str(made.target)
    if why := lacking(runtime):
        sentence = f"{runtime.name} {why}"
        return [_no_answer(context, prepared.model, target, runtime.name)], sentence
    try:
        facts = context.executor.perform(_action(context, prepared, made, runtime, servers)).facts
    except DiskFull:
        raise
    except TransloadError as error:
        return [_no_answer(context, prepared.model, target, runtime.name)], error.what
    return [drift_row(target, row) for row in facts["rows"]], facts["reason"] or facts["note"]


def _action(context: Context, prepared: RunInputs, made: TargetResult, runtime: Runtime, servers: Servers) -> Action:
    if made.stored is None:
        raise ValueError(f"{made.target} has no artifact")
    device = device_for(runtime, context.device)
    interpreter = interpreter_of(runtime)
    asked = context.request.validate_
    served = {"server": servers.kind, "model": servers.model} if runtime.served else {}
    action = Action(
        name=f"validate.{made.target.slug}.{runtime.name}",
        entry=VALIDATE,
        inputs={"artifact": made.stored, "data": prepared.data, "reference": prepared.reference},
        options={
            **prepared.model.options,
            **served,
            "runtime": runtime.name,
            "device": device,
            "threads": 1,
            "batches": batch_sizes(context, prepared.model),
            "precision": str(made.target.precision),
            "tolerance_sqnr_db": asked.sqnr_db if made.target.precision is Precision.FP32 else None,
            "allowed_loss": prepared.model.allowed_loss,
        },
        requires=runtime.requires,
        python=interpreter.path,
        framework=framework_of(runtime.requires),
        tools=interpreter.tools,
        code=prepared.model.code + entry_digest(runtime.entry),
        root=prepared.model.root,
        limits=context.limits(device=device, loopback=runtime.served),
    )
    if not runtime.served:
        return action
    # What a server of somebody else's answers depends on more than its name.
    volatile = servers.kind != "embedded"
    code = action.code + entry_digest(EMBEDDED)
    return replace(
        action,
        services=servers.services(made.stored, device),
        server=servers.start_of(made.stored.folder, device),
        volatile=volatile,
        code=code,
    )


def _no_answer(context: Context, model: ModelDescription, artifact: str, runtime: str) -> DriftRow:
    """The row of a pair that gave no answers at all."""
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
        tolerance=Tolerance(context.request.validate_.sqnr_db, None),
        verdict=Verdict.FAIL,
        metric=None,
    )


def drift_row(artifact: str, row: Mapping[str, Any]) -> DriftRow:
    """A row as it came out of a worker."""
    metric = row["metric"]
    return DriftRow(
        **{
            **row,
            "artifact": artifact,
            "tolerance": Tolerance(**row["tolerance"]),
            "verdict": Verdict(row["verdict"]),
            "metric": MetricRow(**{**metric, "ci95": tuple(metric["ci95"])}) if metric else None,
        }
    )
