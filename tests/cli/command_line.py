"""The command line in this process: most of what a command of a small model takes is loading a framework anew."""

from __future__ import annotations

import contextlib
import io
import subprocess
from pathlib import Path

from transload.pipeline.cli import main


def run(here: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder `here`, and check its exit status. For modules that use `loaded_once`."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(here), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    assert code == status, err.getvalue() + out.getvalue()
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
