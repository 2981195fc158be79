"""What commands print: `--json` alone on stdout, plain tables for people."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import typer

from ....models.library_messages import one_line
from ...progress.terminal_text import align_columns, fit_terminal

# Controls, directions, halves of characters; what a CI takes for a command of its own.
_STEERING = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]|#(?=#\[|#vso\[)")


def print_json(document: Any) -> None:
    """One JSON document on stdout, and nothing beside it."""
    print(printable_json(json.dumps(document, indent=1, ensure_ascii=False)))


def printable_json(text: str) -> str:
    """Return a JSON text with what steers a terminal or a CI as escapes: it stays the same document."""
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


table = align_columns  # as the commands call it


def page(rows: Sequence[Sequence[str]], notes: Sequence[str], last: str) -> list[str]:
    """Lines of a result: its table, the notes on it if there are any, and a last line."""
    return [*table(rows), *(["", *notes] if notes else []), "", last]


def words_of(options: Mapping[str, object]) -> list[str]:
    """Return the words of a command line that give these options; None and an empty list are left out."""
    values = {
        name: value if isinstance(value, list) else [value] for name, value in options.items() if value is not None
    }
    return [word for name, texts in values.items() for value in texts for word in (name, str(value))]


def finish(document: Any, lines: Sequence[str], status: int, *, json: bool) -> NoReturn:
    """Print a result, as its document or as lines, and end the command with its exit status."""
    if json:
        print_json(document)
    else:
        print_lines(lines)
    raise typer.Exit(status)


def print_lines(lines: Sequence[str]) -> None:
    """Lines on stdout, wrapped at words on a terminal; the joints of a tree as ASCII where stdout takes no more."""
    text = "\n".join(map(one_line, lines))
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(sys.stdout.encoding or "ascii", "replace").decode()
    print(fit_terminal(text, sys.stdout))


_ASCII = str.maketrans({"─": "-", "┬": "+", "├": "+", "└": "+"})
