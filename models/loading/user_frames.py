"""Find the line of the user's that a call stack passes through, for the sentence of a refusal."""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from itertools import dropwhile, takewhile
from pathlib import Path

FRAME = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)  # of a traceback as Python prints it
_OURS = Path(__file__).parents[2]
_STANDARD = Path(sysconfig.get_path("stdlib"))
_LAYERS = ("models", "converters", "serving", "pipeline")
_MACHINERY = ("torch", "torchgen", "functorch")  # installed packages that never contain model code


def user_line(lines: Iterable[tuple[str, int]]) -> str | None:
    """Return `file:line` of the innermost of the lines (outermost first) that is a model's code, or None.
    A model's code is not Python's, not torch's and not ours; the user's own goes before a library's. Lines outside of
    the innermost of our own calls are those of our callers."""
    inner = list(dropwhile(lambda place: _is_ours(place[0]), reversed(list(lines))))
    callees = takewhile(lambda place: not _is_ours(place[0]), inner)
    of_models = [(file, line) for file, line in callees if _is_models(file)]
    of_user = [(file, line) for file, line in of_models if "site-packages" not in Path(file).parts]
    return next((f"{file}:{line}" for file, line in of_user or of_models), None)


def line_of_error(error: BaseException) -> str | None:
    """Return the user's line that an exception came through."""
    return user_line((frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__))


def line_of_process(error: BaseException) -> str | None:
    """Return the user's line in the traceback that another process has put into an error's message."""
    return user_line((name, int(line)) for name, line in FRAME.findall(str(error)))


def line_of_now() -> str | None:
    """Return the user's line that is running, seen from inside its callee."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(sys._getframe())]
    return user_line(reversed(frames))


def quoted(place: str) -> str:
    """Return `file:line` with the code that stands there: "net.py:7 (`if x.sum() > 0:`)"."""
    file, _, line = place.rpartition(":")
    code = linecache.getline(file, int(line)).strip()
    return f"{place} (`{code}`)" if code else place


def _is_ours(file: str) -> bool:
    return any(Path(file).is_relative_to(_OURS / layer) for layer in _LAYERS)


def _is_models(file: str) -> bool:
    path = Path(file)
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1] not in _MACHINERY
    return not file.startswith("<") and not path.is_relative_to(_STANDARD)
