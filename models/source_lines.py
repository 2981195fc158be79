"""Lines of the user's code: in a stack trace that torch kept, and in the frames of a running call."""

from __future__ import annotations

import linecache
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

_TORCH_FILES = ("site-packages", "torch/fx/")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\s*\n?\s*(?P<text>[^\n]*)')
_ROOT = Path(__file__).parents[1]
_MACHINERY = (__file__, *(str(_ROOT / room) for room in ("models/loading", "serving", "pipeline")))  # of this package
_PYTHON = sysconfig.get_paths()["stdlib"]


def line_in(trace: str) -> str | None:
    """Return the innermost line of the user's code in a stack trace of torch: "net.py:14 (`x = x.flip(1)`)"."""
    frames = [frame for frame in _FRAME.finditer(trace) if not any(folder in frame["file"] for folder in _TORCH_FILES)]
    if not frames:
        return None
    last = frames[-1]
    return describe_line(last["file"], int(last["line"]), last["text"])


def describe_line(file: str, number: int, text: str) -> str:
    """Return a line for a reader: "net.py:14 (`x = x.flip(1)`)"."""
    text = text.strip()
    return f"{Path(file).name}:{number}{f' (`{text}`)' if text else ''}"


def running_line() -> str:
    """Return the line of the model's code that is running now; empty where only libraries are.

    The user's own code goes before a library's (torchvision's, timm's), whose line is better than none. torch's code,
    Python's and this package's are no model code.
    """
    library = ""
    for file, frame in _model_frames():
        if "site-packages" not in file:
            return _describe_frame(file, frame)
        library = library or _describe_frame(file, frame)
    return library


def _describe_frame(file: str, frame: FrameType) -> str:
    return describe_line(file, frame.f_lineno, linecache.getline(file, frame.f_lineno))


def _model_frames() -> Iterator[tuple[str, FrameType]]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith("<") and not _is_machinery(file):
            yield file, frame
        frame = frame.f_back


def _is_machinery(file: str) -> bool:
    if file.startswith(_MACHINERY):
        return True
    return "site-packages/torch/" in file if "site-packages" in file else file.startswith(_PYTHON)
