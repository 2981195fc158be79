"""The verdict of a comparison over all its figures."""

from __future__ import annotations

import pytest

from transload.models.errors import Exit
from transload.pipeline.result.compare.change_records import Change, FigureKind, RunComparison
from transload.pipeline.result.compare.run_comparison import decide
from transload.pipeline.result.schema import Verdict

from .test_no_worse import figure

SAME, WORSE, BETTER, OPEN, APART = (
    Change.SAME, Change.WORSE, Change.BETTER, Change.INCONCLUSIVE, Change.NOT_COMPARED,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "verdict", "status"),
    [
        ([SAME, BETTER], Verdict.PASS, Exit.PASS),
        ([SAME, APART], Verdict.PASS, Exit.PASS),  # what is not compared decides nothing
        ([SAME, OPEN], Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE),
        ([APART, APART], Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE),
        ([], Verdict.INCONCLUSIVE, Exit.INCONCLUSIVE),
        ([SAME, OPEN, WORSE], Verdict.FAIL, Exit.FAIL),
        ([APART, WORSE], Verdict.FAIL, Exit.FAIL),
    ],
)
def test_worse_before_inconclusive_before_pass(changes: list[Change], verdict: Verdict, status: Exit) -> None:
    figures = tuple(figure(FigureKind.SIZE, change) for change in changes)
    assert decide(RunComparison("before", "after", (), (), (), figures)) == (verdict, status)
