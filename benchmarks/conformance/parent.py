"""Runs cases in a process of their own, and goes on in a new one where a case kills it or never returns."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

LIMIT_S = 120
CHILD = Path(__file__).with_name("child.py")


def run_cases(
    backend: str, view: str, names: Sequence[str], *, tell: bool, limit_s: float = LIMIT_S
) -> dict[str, list[str]]:
    """By case, the status ("right", "WRONG", "error") and why. `tell` prints each as it comes, unless it is right;
    a case may take `limit_s`, the start of a process included."""
    found: dict[str, list[str]] = {}
    child: _Child | None = None
    for name in names:
        child = child or _Child(backend, view, limit_s)
        answer = child.ask(name)
        if answer is None:
            answer = ["error", f"the process ended, {child.end()}"]
            child = None
        found[name] = answer
        if tell and answer[0] != "right":
            print(f"{backend}/{view} {name}: {answer[0]} {answer[1]}", flush=True)
    if child is not None:
        child.end()
    return found


class _Child:
    def __init__(self, backend: str, view: str, limit_s: float) -> None:
        self._limit_s = limit_s
        self._temporary = tempfile.TemporaryDirectory()  # killed, it leaves files behind
        reading, writing = os.pipe()
        command = [sys.executable, str(CHILD), backend, view, str(writing)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=[writing], text=True, env={**os.environ, "TMPDIR": self._temporary.name},
        )  # fmt: skip
        os.close(writing)
        self._replies = os.fdopen(reading)

    def ask(self, name: str) -> list[str] | None:
        """Status and why, or None where there is no reply."""
        assert self._process.stdin is not None
        try:
            print(name, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return None
        ready, _, _ = select.select([self._replies], [], [], self._limit_s)
        line = self._replies.readline() if ready else ""
        return list(json.loads(line)[1:]) if line else None

    def end(self) -> str:
        """Stop the process; how it ended."""
        late = self._process.poll() is None
        self._process.kill()
        code = self._process.wait()
        self._replies.close()
        self._temporary.cleanup()
        return f"after {self._limit_s:g} s without an answer" if late and code == -9 else f"by signal or code {code}"
