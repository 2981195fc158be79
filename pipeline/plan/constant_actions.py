"""Two actions that ask the reference near the constants of a copy: rows are proposed, and added to its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...models.errors import DiskFull, TransloadError
from ...models.store import Stored
from ...serving.runtimes.runtime_table import Runtime
from ..drift.drift_records import ProposalFacts
from ..workers.engine import Action, Executor
from ..workers.fork_server import framework_of
from ..workers.interpreters import interpreter_of
from ..workers.isolation import Limits


def recorder_requires(runtime: Runtime) -> tuple[str, ...]:
    """Return what it takes to see the values inside an artifact."""
    # TensorFlow's interpreter keeps every tensor of a TFLite file.
    return (*runtime.requires, "tensorflow") if runtime.name == "tflite" else runtime.requires


def proposal(name: str, inputs: Mapping[str, Stored], runtime: Runtime, limits: Limits) -> Action:
    """Return the action that proposes rows near the constants of a copy: a Stored with ProposalFacts.
    `inputs`: the artifact, the data and the reference."""
    requires, interpreter = recorder_requires(runtime), interpreter_of(runtime)
    return Action(
        name=name, entry="transload.pipeline.locate.constant_inputs:propose",
        inputs=inputs,
        requires=requires, python=interpreter.path, tools=interpreter.tools, framework=framework_of(requires),
        limits=limits,
    )  # fmt: skip


def extension(recorder: Action, propose: Action, proposed: Stored) -> Action | None:
    """Return the action that adds the reference's answers to proposed rows; None where there are none.
    `recorder`: the action that recorded the reference."""
    if not ProposalFacts.from_json(proposed.facts).sources:
        return None
    inputs = {**recorder.inputs, "reference": propose.inputs["reference"], "near": proposed}
    return replace(recorder, name=f"reference.{propose.name}", inputs=inputs)


def extended_reference(executor: Executor, recorder: Action | None, propose: Action) -> tuple[Stored, tuple[int, int]]:
    """Return the reference with answers near the constants of a copy, and how many constants it has and none reached.
    What cannot be had is left out: the copy is then asked what all are."""
    reference, counts = propose.inputs["reference"], (0, 0)
    if recorder is None:
        return reference, counts
    try:
        proposed = executor.perform(propose)
        facts = ProposalFacts.from_json(proposed.facts)
        counts = facts.constants, facts.unreached
        extend = extension(recorder, propose, proposed)
        return (executor.perform(extend) if extend else reference), counts
    except DiskFull:
        raise
    except TransloadError:
        return reference, counts
