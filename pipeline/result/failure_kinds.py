"""Kinds of failures, so that many of them can be grouped by cause without reading their sentences."""

from __future__ import annotations

from enum import StrEnum

from ...models.errors import (
    BadRequest,
    DiskFull,
    Refused,
    SessionTimeout,
    StepOutOfMemory,
    StepTimeout,
    ToolMissing,
    TransloadError,
)


class FailureKind(StrEnum):
    """Why a model, a target or a route gave no result that may be used."""

    WRONG = "wrong answers"
    REFUSED = "refused"  # a step says by name what it cannot carry
    TOOL = "tool failed"
    TIME = "time limit"
    MEMORY = "memory limit"
    MISSING = "not installed"
    INPUT = "bad input"  # the model, its data or its options cannot be taken
    RULE = "release rule"
    EVIDENCE = "too little evidence"
    DISK = "disk full"
    BUG = "bug in transload"


_KINDS: tuple[tuple[type[TransloadError], FailureKind], ...] = (  # the first that fits, subclasses before their bases
    (DiskFull, FailureKind.DISK),
    (ToolMissing, FailureKind.MISSING),
    (BadRequest, FailureKind.INPUT),
    (Refused, FailureKind.REFUSED),
    (StepTimeout, FailureKind.TIME),
    (SessionTimeout, FailureKind.TIME),
    (StepOutOfMemory, FailureKind.MEMORY),
)


def kind_of_error(error: TransloadError) -> FailureKind:
    """Return the kind of an error by its class; of a failed step that names the model, by that which it was raised
    from."""
    kind = next((kind for cls, kind in _KINDS if isinstance(error, cls)), FailureKind.TOOL)
    if kind is FailureKind.TOOL and isinstance(error.__cause__, TransloadError):
        return kind_of_error(error.__cause__)
    return kind
