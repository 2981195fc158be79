"""The rows of a result in one form, for every kind of file that a CI reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ....models.errors import TransloadError
from ....models.library_messages import one_line
from ...result.compare.change_records import Change, FigureKind, RunComparison
from ...result.compare.no_worse import RULE as NO_WORSE
from ...result.facts import FactClaim, told_elsewhere
from ...result.gate import why_not_made
from ...result.schema import (
    ArtifactRow,
    DriftRow,
    GateRow,
    LeftOutRow,
    LocatedRow,
    RunResult,
    SmallestRow,
    Status,
    Verdict,
)
from ..units import plain, sentence, sqnr, where
from .source_places import SourcePlace, SourcePlaces, place_of_error


class CiOutcome(StrEnum):
    """What became of a row."""

    PASS = "pass"  # noqa: S105  (no password)
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class CiRow:
    """A row as a CI shows it: a test case of JUnit, a result of SARIF."""

    suite: str  # "targets", "drift", "gate", "compare"
    name: str
    rule: str  # what was not kept: "target", "drift", "p99_s"
    outcome: CiOutcome
    message: str  # one sentence
    seconds: float = 0.0
    place: SourcePlace | None = None
    claim: FactClaim | None = None  # what it says, where other rows may say the same

    def __post_init__(self) -> None:
        for name in ("name", "message"):
            object.__setattr__(self, name, one_line(getattr(self, name)))


OUTCOMES = {
    Verdict.PASS: CiOutcome.PASS, Verdict.FAIL: CiOutcome.FAIL, Verdict.INCONCLUSIVE: CiOutcome.INCONCLUSIVE,
    Change.WORSE: CiOutcome.FAIL, Change.INCONCLUSIVE: CiOutcome.INCONCLUSIVE, Change.NOT_COMPARED: CiOutcome.SKIPPED,
    Change.BETTER: CiOutcome.PASS, Change.SAME: CiOutcome.PASS,
}  # fmt: skip
# Of a target, by its status; of any other it is a pass.
VERDICTS = {Status.FAILED: Verdict.FAIL, Status.UNVERIFIED: Verdict.INCONCLUSIVE}


def rows_of_run(result: RunResult, places: SourcePlaces) -> list[CiRow]:
    """Return the rows of a run: targets, comparisons, release rules, and figures against the baseline."""
    return [
        *rows_of_targets(result.artifacts, places, smallest=result.smallest),
        *_left_out(result.left_out),
        *rows_of_drift(result.drift, result.gate, places, located=result.located),
        *(rows_of_comparison(result.baseline, places, result.gate) if result.baseline else ()),
    ]


def rows_of_targets(
    artifacts: Sequence[ArtifactRow], places: SourcePlaces, *, smallest: Sequence[SmallestRow] = (), model: str = ""
) -> Iterator[CiRow]:
    """Yield a row for each wanted target. `model`: the name of one of several."""
    pieces = {piece.target: f"; at its smallest: {piece.message}" for piece in smallest}
    for row in artifacts:
        reasons = (tried.reason for tried in row.tried if tried.route == row.route)
        reason = next(reasons, "the model as it was given") if row.path else why_not_made(row)
        message = plain(f"{row.status}: {reason}{pieces.get(row.name, '')}")
        verdict = VERDICTS.get(row.status, Verdict.PASS)
        yield CiRow(
            suite="targets",
            name=plain(f"{model}: {row.name}" if model else row.name),
            rule="target",
            outcome=OUTCOMES[verdict],
            message=message,
            seconds=row.seconds,
            place=places.of_rule("target", row.name, message),
            claim=FactClaim("status" if row.path else "not made", row.name, None, verdict, model),
        )


def rows_of_drift(
    drift: Sequence[DriftRow], gate: Sequence[GateRow], places: SourcePlaces, *, located: Sequence[LocatedRow] = ()
) -> Iterator[CiRow]:
    """Yield a row for each comparison, then one for each release rule."""
    found_at = {(row.artifact, row.runtime): f"; located: {row.message}" for row in located}
    judged = {(row.artifact, row.runtime): row for row in gate if row.rule in ("drift", "answers")}
    for row in drift:
        pair = (row.artifact, row.runtime)
        rule = judged.get(pair)
        message = plain(_drift_message(row, rule) + found_at.get(pair, ""))
        yield CiRow(
            suite="drift",
            name=plain(f"{row.artifact} in {row.runtime} at batch {row.batch}"),
            rule="drift",
            outcome=OUTCOMES[row.verdict],
            message=message,
            place=places.of_rule("drift", row.artifact, message),
            claim=FactClaim("batch", row.artifact, row.runtime, row.verdict),
        )
    for gate_row in gate:
        name = gate_row.rule.partition(" batch=")[0]
        tail = found_at.get((gate_row.artifact, gate_row.runtime or ""), "") if name == "drift" else ""
        message = plain(f"{where(gate_row)}: {sentence(gate_row)}{tail}")
        yield CiRow(
            suite="gate",
            name=plain(f"{gate_row.rule} of {where(gate_row)}"),
            rule=plain(name),
            outcome=OUTCOMES[gate_row.verdict],
            message=message,
            place=places.of_rule(name, gate_row.artifact, message),
            claim=FactClaim(gate_row.rule, gate_row.artifact, gate_row.runtime, gate_row.verdict),
        )


def _drift_message(row: DriftRow, rule: GateRow | None) -> str:
    if row.verdict is not Verdict.PASS and rule is not None and isinstance(rule.got, str):
        return f"{where(row)}: {rule.got}, limit {rule.limit}"
    limit = "" if row.tolerance.sqnr_db is None else f", at least {row.tolerance.sqnr_db:.1f} dB asked for"
    return f"{where(row)}: agreement {sqnr(row)}{limit}"


def _left_out(rows: Sequence[LeftOutRow]) -> Iterator[CiRow]:
    for row in rows:
        yield CiRow(
            suite="targets", name=plain(row.target), rule="target", outcome=CiOutcome.SKIPPED, message=plain(row.reason)
        )


def rows_of_comparison(
    comparison: RunComparison, places: SourcePlaces | None = None, gate: Sequence[GateRow] = ()
) -> Iterator[CiRow]:
    """Yield a row for each figure that two runs have, without those that the gate judges."""
    is_judged = any(rule.rule.startswith(NO_WORSE) for rule in gate)
    for row in comparison.figures:
        if is_judged and row.figure is not FigureKind.STATUS:
            continue
        subject = f"{row.artifact} in {row.runtime}" if row.runtime else row.artifact
        batch = f" at batch {row.batch}" if row.batch is not None else ""
        verdict = {Change.WORSE: Verdict.FAIL, Change.INCONCLUSIVE: Verdict.INCONCLUSIVE}.get(row.verdict, Verdict.PASS)
        yield CiRow(
            suite="compare",
            name=plain(f"{row.figure} of {subject}{batch}"),
            rule=f"compare {row.figure}",
            outcome=OUTCOMES[row.verdict],
            message=plain(f"{subject}{batch}: {row.figure} is {row.verdict}: {row.reason}"),
            place=places.of_rule(f"{NO_WORSE} {row.figure}", row.artifact, row.reason) if places else None,
            claim=FactClaim(f"{NO_WORSE} {row.figure}", row.artifact, row.runtime, verdict),
        )


def count_once(rows: Sequence[CiRow]) -> list[CiRow]:
    """Return the rows with each fact in one of them: a row that repeats it is skipped, and names that one."""
    claims = {row.claim: row for row in rows if row.claim}
    counted = {claim: claims[teller] for claim, teller in told_elsewhere(claims).items()}
    return [
        replace(row, outcome=CiOutcome.SKIPPED, message=f"{row.message}; counted in {teller.suite}: {teller.name}")
        if row.claim and (teller := counted.get(row.claim))
        else row
        for row in rows
    ]


def row_of_error(error: TransloadError, *, name: str) -> CiRow:
    """Return the row of a command, or of one model of several, that could not begin or had to end."""
    message = plain(f"{error.what}; fix: {error.fix}")
    place = place_of_error(error.what)
    return CiRow(
        suite="command", name=plain(name), rule="request", outcome=CiOutcome.FAIL, message=message, place=place
    )


def count_outcomes(rows: Sequence[CiRow]) -> Mapping[CiOutcome, int]:
    """Return how many rows have each outcome."""
    return {outcome: sum(row.outcome is outcome for row in rows) for outcome in CiOutcome}
