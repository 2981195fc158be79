"""The message of a foreign error, as far as a sentence of ours can carry it; all of it is in the log."""

from __future__ import annotations

import re
from typing import Any

_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # as torch's exporter writes them for a terminal
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")  # that steer a terminal; line ends do not
# What GitHub and Azure take for a command in the log of a job. GitHub skips blanks before the colons.
_CI_COMMANDS = re.compile(r"(?<!\S)::(?=[A-Za-z])|##(?=\[|vso\[)")
_VERDICTS = re.compile(r"(?<!\S)(?:PASS|FAIL|INCONCLUSIVE)\b")  # that the last line of a command begins with
_OBJECT = re.compile(r"<(?:\w+\.)*(\w+) object at 0x[0-9a-f]+>")
# Text of torch's exporters for their own developers: whom to ask, and the value as the graph has it.
_ASIDE = re.compile(
    r"\s*(?:Please feel free to request support or submit a pull request on PyTorch GitHub: \S+"
    r"|See the stack trace for more information\.?|\[Caused by the value '.*)",
)
# Keras names the layer of an error on a line of its own.
_LAYER = re.compile(r"^Exception encountered when calling (.+)\.\s+")
# Errors that name a stage of a tool and were raised from an error that names the cause.
_WRAPPER = re.compile(
    r"Failed to convert the exported program to an ONNX model\.|Error when translating node "
    r"|An error occurred (?:when running the '.*' pass|at step \d+)"
)


def first_line(error: object, most: int = 200, *, skip: tuple[str, ...] = (), nothing: str | None = None) -> str:
    """Return the first line that says anything in an error or its text, up to `most` characters.
    Lines that begin with one of `skip` say nothing. Where no line does, it is `nothing`, or the error's class. Of an
    error that only names the stage of a tool it is the line of the error that it was raised from."""
    error = told_by(error)
    text = _LAYER.sub(r"\1: ", text_of(error))
    lines = (_OBJECT.sub(r"\1", _ASIDE.sub("", line)).strip() for line in text.splitlines())
    line = next((text for text in lines if text and not text.startswith(skip)), None)
    if line is None:
        return type(error).__name__ if nothing is None else nothing
    return line[:most]


def told_by(error: object) -> object:
    """Return the error that names the cause: of a chain, the first that is no mere wrapper."""
    while isinstance(error, BaseException) and error.__cause__ and _WRAPPER.match(text_of(error)):
        error = error.__cause__
    return error


def text_of(error: object) -> str:
    """Return an error's message; nothing where the error's own code fails to give it."""
    try:
        return printable(str(error))
    except Exception:  # noqa: BLE001  (it is anybody's code)
        return ""


def one_line(text: str) -> str:
    """Return the text as one line of a terminal, whatever names and messages of strangers it holds.
    Line ends, characters that no terminal shows as themselves, and commands to a CI are written out: none can look like
    a line of ours."""
    line = text
    if not text.isprintable():
        line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in printable(text))
    return _CI_COMMANDS.sub(_written_out, line)


def one_line_texts(value: Any) -> Any:
    """Return a JSON value of a stranger with every text in it, names of fields too, as one line.
    Words that only a verdict of ours begins with are written out, too: a table begins its lines with such texts."""
    if isinstance(value, dict):
        return {one_line_texts(name): one_line_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [one_line_texts(item) for item in value]
    return _VERDICTS.sub(_written_out, one_line(value)) if isinstance(value, str) else value


def _written_out(match: re.Match[str]) -> str:
    """Return a word whose first letter is written as its number."""
    return f"\\x{ord(match[0][0]):02x}{match[0][1:]}"


def printable(text: str) -> str:
    """Return the text as any file and any terminal takes it, without colours.
    Other control characters are written out. So are the halves of characters that Python makes of a file's name that is
    no UTF-8."""
    plain = _COLOUR.sub("", text).encode(errors="backslashreplace").decode()
    return _CONTROLS.sub(lambda control: f"\\x{ord(control[0]):02x}", plain)
