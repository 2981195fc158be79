"""Which line of the user's a call stack passes through: what a refusal names."""

from __future__ import annotations

import linecache
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from itertools import dropwhile, takewhile
from pathlib import Path

_OURS = Path(__file__).parents[2]
_STANDARD = Path(sysconfig.get_path("stdlib"))
_LAYERS = ("models", "converters", "serving", "pipeline")
_MACHINERY = ("torch", "torchgen", "functorch")  # of what is installed, that no model is written in


def user_line(lines: Iterable[tuple[str, int]]) -> str | None:
    """`file:line` of the innermost of the lines (outermost first) that is a model's code; None where none is.

    A model's code is what is not Python's, not torch's and not ours; what the user wrote goes before a library. What
    stands outside of the innermost of our own calls is whoever called us.
    """
    inner = list(dropwhile(lambda each: _is_ours(each[0]), reversed(list(lines))))
    own = [each for each in takewhile(lambda each: not _is_ours(each[0]), inner) if _is_models(each[0])]
    mine = [each for each in own if "site-packages" not in Path(each[0]).parts]
    return next((f"{file}:{line}" for file, line in mine or own), None)


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


def _is_ours(file: str) -> bool:
    return any(Path(file).is_relative_to(_OURS / layer) for layer in _LAYERS)


def _is_models(file: str) -> bool:
    path = Path(file)
    if "site-packages" in path.parts:
        return _library(path) not in _MACHINERY
    return not file.startswith("<") and not path.is_relative_to(_STANDARD)


def _library(path: Path) -> str:
    parts = path.parts
    return parts[parts.index("site-packages") + 1]
