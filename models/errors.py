"""Everything that transload refuses or fails at, by whose move it is.

    TransloadError            what was expected, what came; `fix` says what mends it
      BadRequest              the caller's move: wrong use or bad input          exit 2
        ToolMissing           a library or a device is not there                 exit 2
      Refused                 a step says by name what it cannot carry           exit 4
      StepFailed              a foreign tool failed, died, hung or lied          exit 4
      SessionLost             a loaded model stopped answering                   exit 4
        SessionTimeout        ... in time                                        exit 4

Anything else that is raised is a bug of ours.
"""

from __future__ import annotations

from enum import IntEnum

from .foreign_errors import printable


class Exit(IntEnum):
    """Exit status of every command (docs/exit-codes.md)."""

    PASS = 0
    FAIL = 1  # drift, or a release rule that is not met
    USAGE = 2  # wrong use or bad input
    INCONCLUSIVE = 3  # not enough evidence to say pass or fail
    TOOLCHAIN = 4  # a tool failed and no other route was left


class TransloadError(Exception):
    """What a person can mend. Shown as two lines, without a traceback."""

    exit_code: Exit = Exit.USAGE

    def __init__(self, what: str, *, fix: str) -> None:
        self.what, self.fix = printable(what), printable(fix)
        super().__init__(f"{self.what}\n  fix: {self.fix}")


class BadRequest(TransloadError):
    """The request or its input cannot be taken as it is."""


class ToolMissing(BadRequest):
    """A library, a program or a device that the request needs is not here."""


class DiskFull(BadRequest):
    """The disk took no more. Nothing half-written is left."""


class Refused(TransloadError):
    """A conversion step met something that it would get wrong, and names it."""

    exit_code = Exit.TOOLCHAIN


class StepFailed(TransloadError):
    """A step ended without its result: a tool's own error, a crash, a time-out, a memory limit.

    `decided`: the tool itself raised an error, and will again; it did not crash, hang or run out of something.
    """

    exit_code = Exit.TOOLCHAIN

    def __init__(self, what: str, *, fix: str, decided: bool = False) -> None:
        super().__init__(what, fix=fix)
        self.decided = decided


class SessionLost(TransloadError):
    """A loaded model no longer answers."""

    exit_code = Exit.TOOLCHAIN


class SessionTimeout(SessionLost):
    """A loaded model did not answer in time."""


ERRORS: dict[str, type[TransloadError]] = {
    error.__name__: error
    for error in (BadRequest, ToolMissing, DiskFull, Refused, StepFailed, SessionLost, SessionTimeout)
}
