"""The rows of a list of models: a case for each target of each model, with the model's line in the list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..model_list.list_records import ListResult, ModelRow, RowFailure, RowState, TargetRow
from ..model_list.models_file import ListedModel
from ..report.units import plain
from ..result.failure_kinds import FailureKind
from ..result.schema import Status, Verdict
from .ci_rows import CiOutcome, CiRow
from .source_places import SourcePlace, SourcePlaces

_OF_STATUS = {Status.FAILED: CiOutcome.FAIL, Status.UNVERIFIED: CiOutcome.INCONCLUSIVE}
_OF_VERDICT = {Verdict.PASS: CiOutcome.PASS, Verdict.FAIL: CiOutcome.FAIL, Verdict.INCONCLUSIVE: CiOutcome.INCONCLUSIVE}


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
        rows = [self._of_target(target, reasons, rules) for target in row.targets]
        rows += [self._of_rule(failure) for failure in rules]
        rows += [self._of_model(failure) for failure in reasons if failure.target is None]
        if row.state is not RowState.DONE:
            rows.append(self._verdict_row(CiOutcome.INCONCLUSIVE, str(row.state)))
        elif not rows or (row.verdict is not Verdict.PASS and all(ci_row.outcome is CiOutcome.PASS for ci_row in rows)):
            reason = f"the verdict is {row.verdict}, with exit status {row.exit_code}"
            rows.append(self._verdict_row(_OF_VERDICT[row.verdict or Verdict.INCONCLUSIVE], reason))
        for at, ci_row in enumerate(rows):
            yield ci_row if at else replace(ci_row, seconds=row.seconds)

    def _of_target(self, target: TargetRow, failures: Sequence[RowFailure], rules: Sequence[RowFailure]) -> CiRow:
        name = f"{target.target} in {target.runtime}" if target.runtime else target.target
        outcome = _OF_STATUS.get(target.status, CiOutcome.PASS)
        own = next((failure for failure in failures if failure.target == target.target), None)
        text = f"{own.message}; fix: {own.fix}" if own and outcome is not CiOutcome.PASS else target.note
        steps = (rule.step for rule in rules if rule.target == target.target)
        return self._ci_row(
            "targets", name, "target", outcome, f"{target.status}: {text}",
            summed_up=any(target.runtime in (None, step) for step in steps),
        )  # fmt: skip

    def _of_rule(self, failure: RowFailure) -> CiRow:
        rule = failure.rule or ""
        runtime = "" if failure.step == rule else f" in {failure.step}"
        outcome = CiOutcome.INCONCLUSIVE if failure.kind is FailureKind.EVIDENCE else CiOutcome.FAIL
        name = f"{rule} of {failure.target}{runtime}"
        ci_row = self._ci_row("gate", name, rule.partition(" batch=")[0], outcome, failure.message)
        place = self._places.of_rule(rule, failure.target or "", failure.message) if self._is_pipeline else ci_row.place
        return replace(ci_row, place=place)

    def _of_model(self, failure: RowFailure) -> CiRow:
        message = f"{failure.step}: {failure.message}; fix: {failure.fix}"
        return self._ci_row("models", "", "request", CiOutcome.FAIL, message)

    def _verdict_row(self, outcome: CiOutcome, message: str) -> CiRow:
        return self._ci_row("models", "", "model", outcome, message)

    def _ci_row(
        self, suite: str, name: str, rule: str, outcome: CiOutcome, message: str, *, summed_up: bool = False
    ) -> CiRow:
        return CiRow(
            suite=suite,
            name=plain(f"{self._row.name}: {name}" if name else self._row.name),
            rule=plain(rule),
            outcome=outcome,
            message=plain(message),
            place=self._places.named_line(message) or self._line,
            summed_up=summed_up,
        )
