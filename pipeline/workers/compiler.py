"""The system's C++ compiler: the programs that it consists of, which a worker that compiles may start, and no others.

`g++` starts others: cc1plus (cc1 for assembly), as, collect2 and ld, and the kernel starts the loader for each of them.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CXX = "CXX"  # PyTorch's Inductor reads it, too
_PARTS = ("cc1plus", "cc1", "as", "collect2", "ld")
_LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
_LIMIT_S = 20


def programs_to_start(program: str) -> tuple[str, ...]:
    """Return the files that the kernel executes for a program: itself, links resolved, and its loader."""
    loader = _LOADERS.get(platform.machine())
    return tuple(str(Path(file).resolve()) for file in (program, *([loader] if loader else [])))


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler, as it is named, and every program that it starts, links resolved."""

    path: str
    version: str
    programs: tuple[str, ...]


def find_compiler() -> Compiler | None:
    """Return the compiler that the variable CXX names, else g++; None where there is none that runs."""
    path = shutil.which(os.environ.get(CXX) or "g++")
    return _examine(path) if path else None


@cache
def _examine(path: str) -> Compiler | None:
    try:
        version = _ask(path, "--version").partition("\n")[0]
        # A part without a folder is looked up in PATH. One that a compiler has built in names no file.
        parts = [shutil.which(_ask(path, f"-print-prog-name={part}").strip()) for part in _PARTS]
    except (OSError, subprocess.SubprocessError):
        return None
    programs = (file for program in (path, *filter(None, parts)) for file in programs_to_start(program))
    return Compiler(path, version, tuple(dict.fromkeys(programs)))


def _ask(path: str, question: str) -> str:
    return subprocess.run([path, question], capture_output=True, text=True, timeout=_LIMIT_S, check=True).stdout
