"""Text on a terminal: how wide it is, whether a line on it can be rewritten, and lines that wrap at words.

A word that is too long, as a path, is never broken, and neither is a command or what stands in quotes: the terminal
wraps it, and it can still be copied as one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TextIO

_USUAL_COLUMNS = 80  # of a terminal that does not say how wide it is
_LEAST_COLUMNS = 20  # beside an indent that continued lines have
# A command after a colon goes on to the end of its line.
_TOKEN = re.compile(r"(?<=: )(?:transload|sh|pip|docker|make) .*|(?<!\S)'[^']+'\S*|\S+")


def is_rewritable(stream: TextIO) -> bool:
    """Return whether a line on the stream can be replaced: a terminal, and none without control characters."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


def columns_of(stream: TextIO) -> int:
    """Return how many columns a terminal has now; COLUMNS, else 80, where it does not say."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # no descriptor, or none of a terminal
        columns = 0
    text = os.environ.get("COLUMNS", "")
    return columns or (int(text) if text.isdecimal() else 0) or _USUAL_COLUMNS


def fit_terminal(text: str, stream: TextIO) -> str:
    """Return the text as it is printed on the stream: wrapped at words on a terminal, else as it is."""
    if not stream.isatty():
        return text
    columns = columns_of(stream)
    return "\n".join(part for line in text.split("\n") for part in wrap_words(line, columns))


def wrap_words(line: str, columns: int) -> list[str]:
    """Return a line as lines of at most so many columns, each longer word on a line of its own.
    Continued lines stand under the last column of a table's row, else two further in than the line itself."""
    if width(line) <= columns:
        return [line]
    indent = " " * _hang(line, columns)
    lines = [""]
    for gap, word in _words(line):
        if lines[-1].strip() and width(f"{lines[-1]}{gap}{word}") > columns:
            lines.append(indent + word)
        else:
            lines[-1] += gap + word
    return lines


def width(text: str) -> int:
    """Return how many columns a text takes. Letters of East Asia take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def align_columns(rows: Sequence[Sequence[str]], indent: str = "", gap: str = "  ") -> list[str]:
    """Return lines with the columns under each other, the gap between. The last column is as long as it is."""
    widths = [max(map(width, column)) for column in list(zip(*rows, strict=True))[:-1]] if rows else []
    return [
        (
            indent
            + gap.join([*(cell + " " * (most - width(cell)) for cell, most in zip(row, widths, strict=False)), row[-1]])
        ).rstrip()
        for row in rows
    ]


def _words(line: str) -> Iterator[tuple[str, str]]:
    """Yield each word that stays whole, with the blanks before it."""
    end = 0
    for match in _TOKEN.finditer(line):
        yield line[end : match.start()], match[0]
        end = match.end()


def _hang(line: str, columns: int) -> int:
    first = len(line) - len(line.lstrip())
    gaps = [gap.end() for gap in re.finditer(r"\S {2,}(?=\S)", line)]
    last = width(line[: gaps[-1]]) if gaps else first + 2
    return last if columns - last >= _LEAST_COLUMNS else min(first + 2, max(0, columns - _LEAST_COLUMNS))
