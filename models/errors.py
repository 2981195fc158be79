"""Errors of transload, by who has to act.

    TransloadError            what was expected, what came; `fix` says what helps
      BadRequest              the caller: wrong use or bad input                  exit 2
        ToolMissing           a library or a device is not there                  exit 2
        CallFailed            the user's model raised when it was called          exit 2
        OpenFailed            a runtime cannot open a payload                     exit 2
        WrongOutputs          a served model answers with other outputs           exit 2
        DiskFull              the disk took no more                               exit 2
      Refused                 a step says by name what it cannot carry            exit 4
        SearchTimeout         the search for a minimal repro found none in time   exit 4
      StepFailed              a foreign tool failed, died, hung or lied           exit 4
        StepTimeout           ... gave no answer in time                          exit 4
          NoAnswer            ... as the model, a file, does not come to an answer  exit 4
        StepOutOfMemory       ... used more memory than it may                    exit 4
      SessionLost             a loaded model stopped answering                    exit 4
        SessionTimeout        ... in time                                         exit 4
        SizeRefused           ... at sizes that its program excludes              exit 4
        SessionOverloaded     ... as its server has too many requests             exit 4

Anything else that is raised is a bug of ours.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar

from .library_messages import one_line


class Exit(IntEnum):
    """Exit status of every command (docs/exit-codes.md)."""

    PASS = 0
    FAIL = 1  # drift, or a release rule that is not met
    USAGE = 2  # wrong use or bad input
    INCONCLUSIVE = 3  # not enough evidence to say pass or fail
    TOOLCHAIN = 4  # a tool failed and no other route was left


class TransloadError(Exception):
    """Base of all errors that a user can act on. Shown as two lines, without a traceback."""

    exit_code: Exit = Exit.USAGE
    is_internal: ClassVar[bool] = False  # a distinction that our code makes, and that no user is told

    def __init__(self, message: str, *, fix: str) -> None:
        self.what, self.fix = one_line(message), one_line(fix)
        super().__init__(f"{self.what}\n  fix: {self.fix}")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by fields: `fix` is a keyword, which BaseException would leave out."""
        return _restore, (type(self), dict(self.__dict__))

    @property
    def kind(self) -> str:
        """The name of the class that a user is told."""
        return next(cls.__name__ for cls in type(self).__mro__ if not cls.__dict__.get("is_internal"))


def _restore(kind: type[TransloadError], fields: dict[str, Any]) -> TransloadError:
    """Make an error from its fields, in another process."""
    error = kind.__new__(kind, f"{fields['what']}\n  fix: {fields['fix']}")
    error.__dict__.update(fields)
    return error


class BadRequest(TransloadError):
    """A request or an input that cannot be taken as it is."""


class ToolMissing(BadRequest):
    """A library, a program or a device that the request needs and that is not here."""


class CallFailed(BadRequest):
    """An error that the user's model raised when it was called."""

    is_internal = True


class OpenFailed(BadRequest):
    """A payload that a runtime cannot open. The runtime's name does not cross a process border."""

    is_internal = True

    def __init__(self, message: str, *, fix: str, runtime: str = "") -> None:
        super().__init__(message, fix=fix)
        self.runtime = runtime


class WrongOutputs(BadRequest):
    """Outputs of a served model that have other names or dtypes than its record says."""

    is_internal = True


class DiskFull(BadRequest):
    """A full disk. Nothing half-written is left."""


class Refused(TransloadError):
    """Something that a conversion step would get wrong, and names."""

    exit_code = Exit.TOOLCHAIN


class SearchTimeout(Refused):
    """A search for a minimal repro that found none in its time."""

    is_internal = True


class StepFailed(TransloadError):
    """A step that ended without its result: by a tool's own error, a crash, a time-out or a memory limit.
    `decided`: the tool itself raised an error, and will again; it did not crash, hang or run out of something."""

    exit_code = Exit.TOOLCHAIN

    def __init__(self, message: str, *, fix: str, decided: bool = False) -> None:
        super().__init__(message, fix=fix)
        self.decided = decided


class StepTimeout(StepFailed):
    """A step that gave no answer in its time."""

    is_internal = True


class NoAnswer(StepTimeout):
    """A step whose model, a file, did not answer a call in the time for that."""

    is_internal = True


class StepOutOfMemory(StepFailed):
    """A step that used more memory than it may."""

    is_internal = True


class SessionLost(TransloadError):
    """A loaded model that no longer answers."""

    exit_code = Exit.TOOLCHAIN


class SessionTimeout(SessionLost):
    """A loaded model that did not answer in time."""


class SizeRefused(SessionLost):
    """A loaded model that does not answer at sizes which its program excludes."""

    is_internal = True


class SessionOverloaded(SessionLost):
    """A served model whose server refuses a request, as too many others wait."""

    is_internal = True


# The errors that cross a process border as themselves, by name.
ERRORS: dict[str, type[TransloadError]] = {
    error.__name__: error
    for error in (
        BadRequest, ToolMissing, CallFailed, OpenFailed, WrongOutputs, DiskFull, Refused, SearchTimeout, StepFailed,
        StepTimeout, NoAnswer, StepOutOfMemory, SessionLost, SessionTimeout, SizeRefused, SessionOverloaded,
    )
}  # fmt: skip
