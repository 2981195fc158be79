"""Two actions that ask the reference near the constants of a copy: rows are proposed, and added to its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...models.errors import DiskFull, TransloadError
from ...models.store import Stored
from ...serving.runtimes.runtime_table import Runtime
from ..drift.drift_records import ProposalFacts
from ..workers.engine import Action
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


@dataclass(frozen=True)
class ExtendedReference:
    """A recorded reference that was asked near the constants of a copy, too."""

    reference: Stored
    constants: tuple[int, int] = (0, 0)  # that the copy compares values with, and those that no input reached


def extend_reference(
    perform: Callable[[Action], Stored | None], recorder: Action | None, propose: Action
) -> ExtendedReference | None:
    """Extend the reference of a proposal by what `recorder`, which made it, answers to the proposed rows.
    What cannot be had is left out: the copy is then asked what all are. None while `perform` returns None."""
    plain = ExtendedReference(propose.inputs["reference"])
    if recorder is None:
        return plain
    try:
        proposed = perform(propose)
        if proposed is None:
            return None
        facts = ProposalFacts.from_json(proposed.facts)
        extended: Stored | None = plain.reference
        if facts.sources:
            inputs = {**recorder.inputs, "reference": plain.reference, "near": proposed}
            extended = perform(replace(recorder, name=f"reference.{propose.name}", inputs=inputs))
        return None if extended is None else ExtendedReference(extended, (facts.constants, facts.unreached))
    except DiskFull:
        raise
    except TransloadError:
        return plain
