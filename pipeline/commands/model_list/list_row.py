"""What a finished command of one model contributes to the table and to the causes of a list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ....models.errors import TransloadError
from ...result.failure_kinds import FailureKind, kind_of_error
from ...result.gate import why_not_made
from ...result.list_records import RowFailure, TargetRow
from ...result.schema import (
    ArtifactRow,
    DriftRow,
    GateRow,
    LocatedRow,
    ProbeResultRow,
    RouteStatus,
    SmallestRow,
    Status,
    TriedRow,
    Verdict,
)

_TELLING = (RouteStatus.WRONG, RouteStatus.FAILED, RouteStatus.MISSING)  # the route that came furthest, as why_not_made
_READ_LOG = "read the log, or repeat the step alone with its script in repeat/"
_STATUS = {Verdict.PASS: Status.VERIFIED, Verdict.FAIL: Status.FAILED, Verdict.INCONCLUSIVE: Status.UNVERIFIED}


def rows_of_artifacts(
    artifacts: Sequence[ArtifactRow], probes: Sequence[ProbeResultRow], drift: Sequence[DriftRow] = ()
) -> tuple[TargetRow, ...]:
    """Return a row for each target, with its worst probe or its worst row of drift."""
    rows = []
    for artifact in artifacts:
        own: list[ProbeResultRow | DriftRow] = [row for row in drift if row.artifact == artifact.name]
        own = own or [row for row in probes if row.artifact == artifact.name]
        tried = _telling_route(artifact)
        won = next((row for row in artifact.tried if row.route == artifact.route), None)
        note = (won.reason if won else "the model as it was given") if artifact.path else why_not_made(artifact)
        log = (won.log if won else None) if artifact.path else (tried.log if tried else None)
        least, largest = _worst(own)
        rows.append(
            TargetRow(
                artifact.name, artifact.status, None, artifact.route, least, largest, note, artifact.path, log
            )
        )  # fmt: skip
    return tuple(rows)


def rows_of_drift(drift: Sequence[DriftRow], gate: Sequence[GateRow]) -> tuple[TargetRow, ...]:
    """Return a row for each copy in each runtime, as `validate` compares them."""
    pairs: dict[tuple[str, str | None], list[DriftRow]] = {}
    for rule in gate:
        pairs.setdefault((rule.artifact, rule.runtime), [])
    for row in drift:
        pairs.setdefault((row.artifact, row.runtime), []).append(row)
    rows = []
    for (artifact, runtime), own in pairs.items():
        rules = [rule for rule in gate if (rule.artifact, rule.runtime) == (artifact, runtime)]
        verdicts = [rule.verdict for rule in rules] or [row.verdict for row in own]
        order = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
        verdict = min(verdicts, key=order.index)
        telling = next((rule for rule in rules if rule.verdict is verdict and verdict is not Verdict.PASS), None)
        least, largest = _worst(own)
        status, lost = _STATUS[verdict], next((row.lost for row in own if row.lost), None)
        note = f"{telling.rule}: {telling.got}" if telling else f"agrees; {lost}" if lost else "agrees"
        log = next((row.log for row in own if row.log), None)
        rows.append(TargetRow(artifact, status, runtime, (), least, largest, note, None, log))
    return tuple(rows)


def failures_of_artifacts(artifacts: Sequence[ArtifactRow], smallest: Iterable[SmallestRow]) -> tuple[RowFailure, ...]:
    """Return why each target that is lost, or lacks evidence, is so, with the smallest piece that it fails at."""
    pieces = {piece.target: piece for piece in smallest}
    failures = []
    for artifact in artifacts:
        if artifact.path is None:
            failures.append(_lost(artifact, pieces.get(artifact.name)))
        elif artifact.status is Status.UNVERIFIED:
            won = next((row for row in artifact.tried if row.route == artifact.route), None)
            step = artifact.route[-1] if artifact.route else "model"
            reason = won.reason if won else "nothing was compared"
            failures.append(
                RowFailure(
                    FailureKind.EVIDENCE, step, reason, "give samples with --data, or more of them", artifact.name,
                    log=won.log if won else None,
                )
            )  # fmt: skip
    return tuple(failures)


def failures_of_gate(gate: Sequence[GateRow], located: Sequence[LocatedRow] = ()) -> tuple[RowFailure, ...]:
    """Return the release rules that are not kept; drift with the operator that was located, if one was."""
    places = {(row.artifact, row.runtime): row for row in located if row.operator}
    failures = []
    for rule in gate:
        if rule.verdict is Verdict.PASS:
            continue
        place = places.get((rule.artifact, rule.runtime or ""))
        is_drift = rule.rule == "drift" and rule.verdict is Verdict.FAIL
        kind = FailureKind.WRONG if is_drift else FailureKind.RULE
        kind = FailureKind.EVIDENCE if rule.verdict is Verdict.INCONCLUSIVE else kind
        message = place.message if place and is_drift else f"{rule.rule}: {rule.got}, limit {rule.limit}"
        fix = "transload locate finds the operator" if is_drift and not place else "see the model's own report"
        failures.append(
            RowFailure(
                kind, rule.runtime or rule.rule, message, fix, rule.artifact,
                operator=place.operator if place and is_drift else None, rule=rule.rule,
            )
        )  # fmt: skip
    return tuple(failures)


def failure_of_error(error: TransloadError) -> RowFailure:
    """Return why a model could not be taken."""
    return RowFailure(kind_of_error(error), "load the model", error.what, error.fix)


def _lost(artifact: ArtifactRow, piece: SmallestRow | None) -> RowFailure:
    tried = _telling_route(artifact)
    if tried is None or tried.failure is None:
        failure = RowFailure(FailureKind.TOOL, "route", why_not_made(artifact), _READ_LOG, artifact.name)
    else:
        cause = tried.failure
        fix = "transload doctor says how to install it" if cause.kind is FailureKind.MISSING else _READ_LOG
        failure = RowFailure(cause.kind, cause.step, cause.message, fix, artifact.name, log=cause.log)
    if piece:
        failure = replace(failure, operator=piece.operator, message=piece.message, fix=piece.fix, script=piece.script)
    return failure


def _telling_route(artifact: ArtifactRow) -> TriedRow | None:
    tried = (row for status in _TELLING for row in artifact.tried if row.status is status)
    return next(tried, None)


def _worst(rows: Iterable[ProbeResultRow | DriftRow]) -> tuple[float | None, float | None]:
    """Return the least SQNR in dB and the largest difference of these rows."""
    kept = tuple(rows)
    least = min((row.sqnr_db for row in kept if row.sqnr_db is not None), default=None)
    return least, max((row.max_abs for row in kept if row.max_abs is not None), default=None)
