"""The kind of a failure follows from the error's class, and from what it was raised from."""

from __future__ import annotations

import pytest

from transload.models.errors import (
    BadRequest,
    DiskFull,
    NoAnswer,
    Refused,
    StepFailed,
    StepOutOfMemory,
    StepTimeout,
    ToolMissing,
    TransloadError,
)
from transload.pipeline.result.failure_kinds import FailureKind, kind_of_error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest, FailureKind.INPUT), (ToolMissing, FailureKind.MISSING), (DiskFull, FailureKind.DISK),
        (Refused, FailureKind.REFUSED), (StepFailed, FailureKind.TOOL), (StepTimeout, FailureKind.TIME),
        (NoAnswer, FailureKind.TIME), (StepOutOfMemory, FailureKind.MEMORY),
    ],
)  # fmt: skip
def test_the_class_decides(error: type[TransloadError], kind: FailureKind) -> None:
    assert kind_of_error(error("no", fix="look")) is kind


def test_a_failed_step_that_names_the_model_has_the_kind_of_its_cause() -> None:
    error = StepFailed("net.py is not made yet", fix="look")
    error.__cause__ = StepTimeout("no answer", fix="look")
    assert kind_of_error(error) is FailureKind.TIME
