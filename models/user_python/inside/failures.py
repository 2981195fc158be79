"""An error of the user's code, as a record that crosses to transload."""

from __future__ import annotations

import sys
import traceback
from typing import Any

_MOST_TEXT = 20_000


class Refusal(Exception):
    """Something that this side refuses in a sentence, with a fix."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def failure_record(error: BaseException) -> dict[str, Any]:
    """Describe an error: its class, its message, and its traceback as Python prints it, which also goes to the log."""
    if isinstance(error, Refusal):
        return {"kind": "Refusal", "message": str(error), "fix": error.fix}
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    sys.stderr.write(text)
    sys.stderr.flush()
    frames = [[frame.filename, frame.lineno] for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append([error.filename, error.lineno or 0])
    record = {"kind": type(error).__name__, "message": _message(error)[:_MOST_TEXT], "frames": frames}
    if isinstance(error, ModuleNotFoundError) and error.name:
        record["module"] = error.name
    return record


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"exit({error.code!r})"
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])  # Python would show it with quotes
    return error.msg if isinstance(error, SyntaxError) else str(error)
