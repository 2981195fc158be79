"""What a card says of an artifact: from the result of its routes, the rows of its run, and its model."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace

from .... import __version__
from ....converters.conversion_records import ConversionFacts
from ....models.artifact import read_artifact
from ....models.store import digest_of, size_of
from ...plan.route_actions import verification_runtime
from ...plan.router import TargetResult
from ...result.check_table import CheckRows
from ...result.schema import ArtifactRow, DriftRow, ExercisedRow, ProbeResultRow
from ...workers.interpreters import interpreter_of
from ...workers.toolchain import requirement_of
from ..exercise_view import Exercise
from ..units import score, stored_weights
from .card_records import CARD_SCHEMA, Card, CardCheck, CardRuntime, ModelFacts

_SAMPLES = ("whole test set", "samples")  # the probes that are no stress


def card_of(
    result: TargetResult,
    row: ArtifactRow,
    *,
    name: str,
    model: ModelFacts,
    evidence: CheckRows,
    drift: Sequence[DriftRow] = (),
) -> Card:
    """Return the card of an artifact that is there. `name` is the model's."""
    if result.stored is None:
        raise ValueError(f"{result.name} was not made")
    artifact = read_artifact(result.stored.folder)
    exercised = {checked.runtime: checked for checked in evidence.exercised if checked.artifact == row.name}
    probes = [probe for probe in evidence.probes if probe.artifact == row.name and probe.values in _SAMPLES]
    rows: list[DriftRow | ProbeResultRow] = [
        *probes,
        *(compared for compared in drift if compared.artifact == row.name),
    ]
    return Card(
        schema=CARD_SCHEMA,
        name=name,
        target=str(result.target),
        file=artifact.path.name,
        sha256=row.sha256 or digest_of(artifact.path),
        bytes=row.bytes or size_of(artifact.path),
        status=str(row.status),
        agreement=_agreement(row),
        route=row.route,
        signature=artifact.signature,
        runtime=_runtime(result),
        transload=__version__,
        provenance=artifact.provenance,
        model=model,
        checks=tuple(_check(runtime, group, exercised.get(runtime)) for runtime, group in _by_runtime(rows).items()),
        weights=(text,) if (text := stored_weights(row).removeprefix("weights: ")) else (),
        flex=artifact.flex,
    )


def _agreement(row: ArtifactRow) -> str:
    reasons = (tried.reason for tried in row.tried if tried.route == row.route)
    return next(reasons, "the model as it was given")


def _by_runtime(rows: Sequence[DriftRow | ProbeResultRow]) -> dict[str, list[DriftRow | ProbeResultRow]]:
    groups: dict[str, list[DriftRow | ProbeResultRow]] = {}
    for row in rows:
        groups.setdefault(row.runtime, []).append(row)
    return groups


def _check(runtime: str, rows: Sequence[DriftRow | ProbeResultRow], exercised: ExercisedRow | None) -> CardCheck:
    """Return the worst of the comparisons in one runtime."""
    levels = [row.sqnr_db for row in rows if row.sqnr_db is not None]
    limits = [row.tolerance.sqnr_db for row in rows if row.tolerance.sqnr_db is not None]
    errors = [row.max_abs for row in rows if row.max_abs is not None]
    metric = next((row.metric for row in rows if isinstance(row, DriftRow) and row.metric), None)
    return CardCheck(
        runtime=runtime,
        batches=tuple(sorted({row.batch for row in rows})),
        samples=max(row.samples for row in rows),
        sqnr_db=min(levels, default=None),
        max_abs=max(errors, default=None),
        tolerance_db=max(limits, default=None),
        metric=f"{metric.name} {score(metric)}, of the model {score(replace(metric, candidate=metric.reference))}"
        if metric
        else "",
        exercised=_sentences(Exercise((runtime,), exercised)) if exercised else (),
    )


def _sentences(exercise: Exercise) -> tuple[str, ...]:
    """Return what was asked, and what was not."""
    questions = "; ".join(filter(None, (exercise.samples, exercise.sizes, exercise.values)))
    return f"Asked: {questions}", f"Stress: {exercise.stress}", f"Not asked: {exercise.not_asked}"


def _runtime(result: TargetResult) -> CardRuntime:
    """Return the runtime that a conversion is verified in, with the versions that it had."""
    stored = result.stored
    runtime = verification_runtime(result.target, ConversionFacts.part_of(stored.facts).flex if stored else ())
    interpreter = interpreter_of(runtime)
    modules = (*runtime.requires, "numpy")
    lines = [requirement_of(module, interpreter.tools.get(module)) for module in modules]
    return CardRuntime(
        name=runtime.name, python=platform.python_version(), requirements=tuple(line for line in lines if line)
    )
