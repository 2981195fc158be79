"""Which line of the user's a call stack passes through: what a refusal names."""

from __future__ import annotations

import linecache
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

_OURS = Path(__file__).parents[2]
_STANDARD = Path(sysconfig.get_path("stdlib"))
_LAYERS = ("models", "converters", "serving", "pipeline")
_MACHINERY = (_OURS.name, "torch", "torchgen", "functorch")  # of what is installed, that no model is written in


def user_line(lines: Iterable[tuple[str, int]]) -> str | None:
    """`file:line` of the innermost of the lines (outermost first) that is a model's code; None where none is.

    A model's code is what is not Python's, not torch's and not ours; what the user wrote goes before a library.
    """
    own = [(file, line) for file, line in lines if _is_models(file)]
    mine = [each for each in own if "site-packages" not in Path(each[0]).parts]
    for file, line in reversed(mine or own):
        return f"{file}:{line}"
    return None


def line_of_error(error: BaseException) -> str | None:
    """The user's line that an exception came through."""
    return user_line((frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__))


def line_of_now() -> str | None:
    """The user's line that is running, seen from inside of whatever it called."""
    return user_line(reversed(list(_stack())))


def quoted(place: str) -> str:
    """`file:line` and the code that stands there: "net.py:7 (`if x.sum() > 0:`)"."""
    file, _, line = place.rpartition(":")
    code = linecache.getline(file, int(line)).strip()
    return f"{place} (`{code}`)" if code else place


def _stack() -> Iterator[tuple[str, int]]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        if frame.f_back is None:
            return
        frame = frame.f_back


def _is_models(file: str) -> bool:
    path = Path(file)
    if "site-packages" in path.parts:
        return _library(path) not in _MACHINERY
    machinery = (_STANDARD, *(_OURS / layer for layer in _LAYERS))
    return not file.startswith("<") and not any(path.is_relative_to(folder) for folder in machinery)


def _library(path: Path) -> str:
    parts = path.parts
    return parts[parts.index("site-packages") + 1]
