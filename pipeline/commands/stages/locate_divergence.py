"""Search for the place at which a copy departs from its model: two steps, and what they say of the copies of a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....converters.conversion_records import ConversionFacts
from ....models.errors import DiskFull, StepFailed, TransloadError
from ....models.formats import Precision, Target
from ....models.store import Stored
from ....serving.runtimes.runtime_table import RUNTIMES
from ...drift.drift_records import CheckOptions
from ...drift.sessions import runtime_for
from ...locate.describe import summarise_places
from ...locate.locate_records import CaptureFacts, FollowFacts, FollowOptions
from ...measure.validate_stage import ValidationRows
from ...plan.constant_actions import extend_reference, proposal, recorder_requires
from ...plan.context import Context
from ...plan.loaded_model import require_runtime
from ...plan.router import TargetResult
from ...plan.run_inputs import RunInputs, batch_sizes
from ...result.schema import LocatedRow, Verdict
from ...workers.engine import Action
from ...workers.fork_server import framework_of
from ...workers.interpreters import interpreter_of
from ...workers.isolation import Limits

_LEAST_DB = {"fp32": 100.0, "fp16": 50.0, "int8": 20.0, "int8-dynamic": 20.0}


@dataclass(frozen=True)
class FollowedCopy:
    """A copy whose values are followed. `name` tells its steps from another copy's; `seconds`: that each may take."""

    target: Target
    stored: Stored
    flex: tuple[str, ...] = ()
    name: str = ""
    seconds: float | None = None

    @property
    def runtime(self) -> str:
        """The runtime that it is asked in."""
        return runtime_for(self.target.format, self.flex)

    def step(self, name: str) -> str:
        """Return the name of a step on this copy."""
        return f"{name}.{self.name.replace(':', '-')}" if self.name else name


def capture_call(context: Context, copy: FollowedCopy, inputs: RunInputs) -> Stored:
    """Find the call at which a copy departs, and keep its values: a Stored with CaptureFacts.
    Raises TransloadError where the copy or its runtime cannot be opened, or the time is over."""
    require_runtime(copy.runtime)
    interpreter = interpreter_of(RUNTIMES[copy.runtime])
    requires = recorder_requires(RUNTIMES[copy.runtime])
    limits = _limits(context, copy)
    options = CheckOptions(
        runtime=copy.runtime, threads=limits.threads, batches=batch_sizes(context, inputs.model),
        tolerance_sqnr_db=context.request.validate_.sqnr_db if copy.target.precision is Precision.FP32 else None,
    )  # fmt: skip
    inner = {"artifact": copy.stored, "data": inputs.data, "reference": inputs.reference}
    propose = proposal(copy.step("constants"), inner, RUNTIMES[copy.runtime], limits)
    extended = extend_reference(context.executor.perform, inputs.recorder, propose)
    reference = extended.reference if extended else inputs.reference
    return context.executor.perform(
        Action(
            name=copy.step("capture"), entry="transload.pipeline.locate.capture:capture",
            inputs={"artifact": copy.stored, "data": inputs.data, "reference": reference},
            options=options.to_json(),
            requires=requires, python=interpreter.path, tools=interpreter.tools,
            framework=framework_of(requires), limits=limits,
        )
    )  # fmt: skip


def follow_call(
    context: Context, copy: FollowedCopy, inputs: RunInputs, captured: Stored, seconds: float
) -> FollowFacts | None:
    """Follow a captured call through the model for so many seconds; None where it has nothing to follow.
    Raises TransloadError where the model cannot be run."""
    facts = CaptureFacts.from_json(captured.facts)
    if not facts.departs or not facts.operators or facts.vanishes:
        return None
    limits, model = _limits(context, copy), inputs.model
    options = FollowOptions(
        least_db=_LEAST_DB[str(copy.target.precision)], limits_db=facts.limits_db, seconds=seconds,
        threads=limits.threads,
    )  # fmt: skip
    action = Action(
        name=copy.step("follow"), entry="transload.pipeline.locate.match_values:follow",
        inputs={"model": inputs.source, "capture": captured}, options=options.to_json(),
        requires=("torch", *model.requires), framework="torch", code=model.code, root=model.root, reads=model.reads,
        limits=limits,
    )  # fmt: skip
    try:
        stored = context.executor.perform(action)
    except StepFailed as error:
        if error.decided:
            raise
        # A kernel that gets wrong arguments on purpose may end its process; the place alone needs none.
        stored = context.executor.perform(replace(action, options=replace(options, explain=False).to_json()))
    return FollowFacts.from_json(stored.facts)


def locate_failures(
    context: Context, inputs: RunInputs, targets: Sequence[TargetResult], validated: ValidationRows
) -> tuple[LocatedRow, ...]:
    """Return where each copy that fails departs, or why that is not known, within the request's time for searches.
    A search that fails changes nothing else: the copy has failed already."""
    failing = {(row.artifact, row.runtime) for row in validated.rows if row.verdict is Verdict.FAIL}
    copies = [copy for copy in map(_followed_copy, targets) if copy and (copy.name, copy.runtime) in failing]
    if not copies or not context.request.convert.search_seconds:
        return ()
    deadline = time.monotonic() + context.request.convert.search_seconds
    with context.progress.stage("locate") as stage:
        located = [_locate(context, inputs, copy, deadline) for copy in copies]
        rows = tuple(row for row in located if row is not None)
        stage.note = f"{sum(row.operator is not None for row in rows)} of {len(copies)} failing copies located"
    return rows


def _followed_copy(result: TargetResult) -> FollowedCopy | None:
    if result.stored is None or not result.target.format.spec.recorder:
        return None
    flex = tuple(ConversionFacts.part_of(result.stored.facts).flex)
    return FollowedCopy(result.target, result.stored, flex, result.name)


def _locate(context: Context, inputs: RunInputs, copy: FollowedCopy, deadline: float) -> LocatedRow | None:
    """Return where a copy departs, or why that is not known; None where a call alone departs from nothing."""
    left = deadline - time.monotonic()
    if left <= 0:
        return LocatedRow(copy.name, copy.runtime, "the place was not looked for: the time for searches is over")
    copy = replace(copy, seconds=left)
    try:
        captured = capture_call(context, copy, inputs)
        follow = follow_call(context, copy, inputs, captured, max(1.0, deadline - time.monotonic()))
    except DiskFull:
        raise
    except TransloadError as error:
        return LocatedRow(copy.name, copy.runtime, f"the place was not found: {error.what}")
    facts = CaptureFacts.from_json(captured.facts)
    if not facts.departs:
        return None
    message = summarise_places(facts, follow)
    if follow is None or not follow.places:
        return LocatedRow(copy.name, copy.runtime, message)
    first = follow.places[0]
    error_class = first.error_class or None
    return LocatedRow(
        copy.name, copy.runtime, message, first.operator, first.module, first.line, error_class, first.nodes
    )


def _limits(context: Context, copy: FollowedCopy) -> Limits:
    limits = context.limits()
    return limits if copy.seconds is None else replace(limits, seconds=copy.seconds)
