"""The rows of a list of models: a case for each target of each model, with the model's line in the list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ...plan.models_file import ListedModel
from ...result.facts import FactClaim
from ...result.failure_kinds import FailureKind
from ...result.list_records import ListResult, ModelRow, RowFailure, RowState, TargetRow
from ...result.schema import Verdict
from ..units import plain
from .ci_rows import OUTCOMES, VERDICTS, CiOutcome, CiRow
from .source_places import SourcePlace, SourcePlaces


def rows_of_list(result: ListResult, models: Sequence[ListedModel], file: Path) -> list[CiRow]:
    """Return the rows of a list. `models` are those of the list's `file`.
    The seconds of a model stand at its first row, as its targets share steps."""
    listed = {model.name: model for model in models}
    return [ci_row for row in result.models for ci_row in _ModelRows(row, listed[row.name], file)]


class _ModelRows:
    """The rows of one model."""

    def __init__(self, row: ModelRow, model: ListedModel, file: Path) -> None:
        self._row = row
        self._is_pipeline = model.is_pipeline  # whose keys say more than its line in the list
        pipeline = Path(model.root, model.source) if model.is_pipeline else None
        self._places = SourcePlaces(pipeline, None if model.is_pipeline else model.source)
        self._line = SourcePlace(file, model.line or 1)

    def __iter__(self) -> Iterator[CiRow]:
        """Yield the targets, then the release rules that are not kept, then what holds for the model as a whole."""
        row = self._row
        rules = [failure for failure in row.failures if failure.rule]
        reasons = [failure for failure in row.failures if not failure.rule]
        rows = [self._of_target(target, reasons) for target in row.targets]
        rows += [self._of_rule(failure) for failure in rules]
        rows += [self._of_model(failure) for failure in reasons if failure.target is None]
        if row.state is not RowState.DONE:
            rows.append(self._verdict_row(CiOutcome.INCONCLUSIVE, str(row.state)))
        elif not rows or (row.verdict is not Verdict.PASS and all(ci_row.outcome is CiOutcome.PASS for ci_row in rows)):
            reason = f"the verdict is {row.verdict}, with exit status {row.exit_code}"
            rows.append(self._verdict_row(OUTCOMES[row.verdict or Verdict.INCONCLUSIVE], reason))
        for at, ci_row in enumerate(rows):
            yield ci_row if at else replace(ci_row, seconds=row.seconds)

    def _of_target(self, target: TargetRow, failures: Sequence[RowFailure]) -> CiRow:
        name = f"{target.target} in {target.runtime}" if target.runtime else target.target
        verdict = VERDICTS.get(target.status, Verdict.PASS)
        own = next((failure for failure in failures if failure.target == target.target), None)
        text = f"{own.message}; fix: {own.fix}" if own and verdict is not Verdict.PASS else target.note
        claim = FactClaim("any", target.target, target.runtime, verdict, self._row.name)
        return self._ci_row("targets", name, "target", OUTCOMES[verdict], f"{target.status}: {text}", claim=claim)

    def _of_rule(self, failure: RowFailure) -> CiRow:
        rule = failure.rule or ""
        runtime = "" if failure.step == rule else f" in {failure.step}"
        verdict = Verdict.INCONCLUSIVE if failure.kind is FailureKind.EVIDENCE else Verdict.FAIL
        name = f"{rule} of {failure.target}{runtime}"
        claim = FactClaim(rule, failure.target or "", failure.step if runtime else None, verdict, self._row.name)
        rule_id = rule.partition(" batch=")[0]
        ci_row = self._ci_row("gate", name, rule_id, OUTCOMES[verdict], failure.message, claim=claim)
        place = self._places.of_rule(rule, failure.target or "", failure.message) if self._is_pipeline else ci_row.place
        return replace(ci_row, place=place)

    def _of_model(self, failure: RowFailure) -> CiRow:
        message = f"{failure.step}: {failure.message}; fix: {failure.fix}"
        return self._ci_row("models", "", "request", CiOutcome.FAIL, message)

    def _verdict_row(self, outcome: CiOutcome, message: str) -> CiRow:
        return self._ci_row("models", "", "model", outcome, message)

    def _ci_row(
        self, suite: str, name: str, rule: str, outcome: CiOutcome, message: str, *, claim: FactClaim | None = None
    ) -> CiRow:
        return CiRow(
            suite=suite,
            name=plain(f"{self._row.name}: {name}" if name else self._row.name),
            rule=plain(rule),
            outcome=outcome,
            message=plain(message),
            place=self._places.named_line(message) or self._line,
            claim=claim,
        )
