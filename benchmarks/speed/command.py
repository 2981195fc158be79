"""Run a command of a benchmark in this folder."""

from __future__ import annotations

import subprocess
from pathlib import Path


def run_command(*words: str) -> str:
    """Return what a command prints. Ends this program, with the command's last words, where it fails."""
    folder = Path(__file__).resolve().parent
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return done.stdout
