"""The two actions of every step of a route: its conversion, and the check of what that made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...converters.conversion_records import ConversionFacts
from ...models.formats import Precision, Target
from ...models.job_records import DataFacts
from ...models.store import Stored
from ...serving.runtimes.runtime_table import RUNTIMES, Runtime
from ..drift.drift_records import CheckOptions
from ..drift.sessions import runtime_for
from ..workers.engine import Action
from ..workers.fork_server import framework_of
from ..workers.interpreters import interpreter_of
from ..workers.isolation import Limits
from .constant_actions import proposal
from .run_plan import Route, action_name

VERIFY = "transload.pipeline.drift.jobs:verify"


@dataclass(frozen=True, kw_only=True)
class ConversionInputs:
    """What every route of a run starts from."""

    source: Stored  # of the model in PyTorch, or of a given artifact
    start: Target | None
    data: Stored
    code: str = ""
    root: str | None = None
    reads: tuple[str, ...] = ()  # the folders that the model is made from
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True)
class VerificationInputs(ConversionInputs):
    """What every route of a run starts from and is compared with."""

    reference: Stored
    verify_options: CheckOptions
    recorder: Action | None = None  # the step that recorded the reference
    sqnr_db: float | None  # the user's own limit for an fp32 copy; other precisions have floors (drift/rules.py)


def verification_runtime(target: Target, flex: Sequence[str] = ()) -> Runtime:
    """Return what a conversion to the target is checked in. `flex`: its operators that need TensorFlow's delegate."""
    return RUNTIMES[runtime_for(target.format, flex)]


def is_capture(target: Target) -> bool:
    """Return whether PyTorch itself runs artifacts of a target."""
    return framework_of(verification_runtime(target).requires) == "torch"


def conversion(inputs: ConversionInputs, route: Route, source: Stored) -> Action:
    """Return the action of the route's last step, done to what the steps before it have made."""
    step = route.steps[-1]
    interpreter = interpreter_of(step)
    needs_data = step.calibrates or (step.calls and DataFacts.from_json(inputs.data.facts).is_of_user)
    return Action(
        name=action_name("convert", route),
        entry=step.entry,
        inputs={"source": source, **({"data": inputs.data} if needs_data else {})},
        options=step.options,
        requires=step.requires,
        python=interpreter.path,
        framework=framework_of(step.requires),
        tools=interpreter.tools,
        code=inputs.code if step.source is None else "",
        root=inputs.root,
        reads=inputs.reads,
        limits=inputs.limits,
        remembers_refusal=True,
    )


def constants_of(inputs: VerificationInputs, route: Route, artifact: Stored) -> Action:
    """Return the action that proposes inputs near the constants of what the route has made."""
    runtime = verification_runtime(route.steps[-1].target, ConversionFacts.part_of(artifact.facts).flex)
    copy = {"artifact": artifact, "data": inputs.data, "reference": inputs.reference}
    return proposal(action_name("constants", route), copy, runtime, inputs.limits)


def verification(inputs: VerificationInputs, route: Route, artifact: Stored) -> Action:
    """Return the check of what the route has made, opened anew, against the reference."""
    step = route.steps[-1]
    runtime = verification_runtime(step.target, ConversionFacts.part_of(artifact.facts).flex)
    interpreter = interpreter_of(runtime)
    return Action(
        name=action_name("verify", route),
        entry=VERIFY,
        inputs={"artifact": artifact, "data": inputs.data, "reference": inputs.reference},
        options=replace(
            inputs.verify_options,
            precision=str(step.target.precision),
            tolerance_sqnr_db=inputs.sqnr_db if step.target.precision is Precision.FP32 else None,
        ).to_json(),
        requires=(*step.requires, *runtime.requires),
        python=interpreter.path,
        framework=framework_of(runtime.requires),
        tools=interpreter.tools,
        code=inputs.code,
        root=inputs.root,
        reads=inputs.reads,
        limits=inputs.limits,
        remembers_refusal=True,
    )
