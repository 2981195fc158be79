"""What a foreign error says, as far as a sentence of ours can carry it; the whole of it is in the log."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # as torch's exporter writes them for a terminal
_STEERS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")  # a terminal; what ends a line does not
_OBJECT = re.compile(r"<(?:\w+\.)*(\w+) object at 0x[0-9a-f]+>")
# What torch's exporters write for those who work on them: whom to ask, and the value as their graph has it.
_ASIDE = re.compile(
    r"\s*(?:Please feel free to request support or submit a pull request on PyTorch GitHub: \S+"
    r"|See the stack trace for more information\.?|\[Caused by the value '.*)",
)
# What Keras puts on a line of its own: the layer that an error is of.
_LAYER = re.compile(r"^Exception encountered when calling (.+)\.\s+")
# Errors that name a stage of a tool's own and were raised from one that names the cause.
_WRAPPER = re.compile(
    r"Failed to convert the exported program to an ONNX model\.|Error when translating node "
    r"|An error occurred (?:when running the '.*' pass|at step \d+)"
)


def first_line(error: object, most: int = 200, *, skip: tuple[str, ...] = (), nothing: str | None = None) -> str:
    """The first line of an error, or of its text, that says anything, up to `most` characters of it. Lines that begin
    with one of `skip` say nothing. Where no line does: `nothing`, or the error's class. Of an error that only names the
    stage of a tool it is the line of what it was raised from."""
    error = told_by(error)
    text = _LAYER.sub(r"\1: ", text_of(error))
    lines = (_OBJECT.sub(r"\1", _ASIDE.sub("", line)).strip() for line in text.splitlines())
    found = next((line for line in lines if line and not line.startswith(skip)), None)
    if found is None:
        return type(error).__name__ if nothing is None else nothing
    return found[:most]


def told_by(error: object) -> object:
    """The error that names the cause: of a chain, the first that is no mere wrapper."""
    while isinstance(error, BaseException) and error.__cause__ and _WRAPPER.match(text_of(error)):
        error = error.__cause__
    return error


def text_of(error: object) -> str:
    """What an error says; nothing, where its own code fails to say it."""
    try:
        return printable(str(error))
    except Exception:  # noqa: BLE001  (it is anybody's code)
        return ""


def printable(text: str) -> str:
    """The text as any file and any terminal takes it: without colours. What else steers a terminal is written out, and
    so are the halves of characters that Python makes of a file's name that is no UTF-8."""
    plain = _COLOUR.sub("", text).encode(errors="backslashreplace").decode()
    return _STEERS.sub(lambda found: f"\\x{ord(found[0]):02x}", plain)
