"""Errors: those that cross a process border, and the class that a user is told."""

from __future__ import annotations

import pytest

from transload.models.errors import ERRORS, BadRequest, OpenFailed, SearchTimeout, SizeRefused, ToolMissing


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OpenFailed, "BadRequest"),
        (SearchTimeout, "Refused"),
        (SizeRefused, "SessionLost"),
        (ToolMissing, "ToolMissing"),
    ],
)
def test_a_user_is_told_no_distinction_that_only_our_code_makes(error: type[BadRequest], kind: str) -> None:
    assert error("it failed", fix="try again").kind == kind


def test_every_error_crosses_by_its_name_with_message_and_fix_alone() -> None:
    for name, error in ERRORS.items():
        crossed = error("it failed", fix="try again")
        assert (type(crossed).__name__, crossed.what, crossed.fix) == (name, "it failed", "try again")
