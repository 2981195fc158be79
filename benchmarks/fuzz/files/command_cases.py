"""Cases that go through the program itself: `python -m transload convert FILE`, in a folder of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from case_process import Outcome, rng_of
from intake_cases import INTAKES, Intake

_TIMEOUT_S = 120
_STATUSES = (0, 1, 2, 3, 4)
_OWN = ("out", ".transload")  # what the command leaves on purpose
_TARGETS = {"intake onnx": "saved-model", "intake tflite": "tflite"}


@dataclass(frozen=True)
class Command:
    """The cases of one kind of file through `convert`, or through `validate` with data."""

    intake: Intake
    share: int = 1

    @property
    def name(self) -> str:
        """The name of these cases."""
        return self.intake.name.replace("intake", "command", 1)


COMMANDS = tuple(Command(intake) for intake in INTAKES if not intake.data and "transformers" not in intake.name)


class CommandRunner:
    """Runs the program on cases."""

    def __init__(self, command: Command, seed: int, seeds: Path, folder: Path) -> None:
        self._command, self._seed, self._seeds = command, seed, seeds / command.intake.seeds
        self._folder, self._case, self._private = folder, folder / "case", folder / "private"

    def run(self, number: int) -> tuple[Outcome, dict[str, Any]]:
        """Run the program on a case; return its outcome and what was found."""
        if number < 0:
            return Outcome.ACCEPTED, {}  # there is nothing to warm up
        for path in (self._case, self._private):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir(parents=True)
        intake = self._command.intake
        intake.write(rng_of(self._seed, self._command.name, number), self._seeds, self._case)
        before = {str(path.relative_to(self._folder)) for path in self._folder.rglob("*")}
        file = next(path.name for path in sorted(self._case.iterdir()) if path.name.startswith("file"))
        words = [word.replace("*", file) for word in (intake.text, *intake.words)]
        target = _TARGETS.get(intake.name, "onnx")
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "transload", "convert", *words, "--to", target, "--out", "out", "--quiet"],
                cwd=self._case, capture_output=True, timeout=_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": str(self._private), "HOME": str(self._private)},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome.FINDING, {"error": f"{words[0]} took more than {_TIMEOUT_S} s"}
        after = {str(path.relative_to(self._folder)) for path in self._folder.rglob("*")}
        left = [name for name in after - before if not name.startswith(tuple(f"case/{own}" for own in _OWN))]
        text = done.stderr.decode(errors="replace")
        if done.returncode not in _STATUSES or "Traceback" in text or left:
            return Outcome.FINDING, {"error": f"exit status {done.returncode}, left {left[:3]}: {text[-300:]}"}
        if done.returncode == 2 and not re.search(r"^\s*fix: \S", text, re.MULTILINE):
            return Outcome.FINDING, {"error": f"no fix: {text[-300:]}"}
        return (Outcome.REFUSED if done.returncode in (2, 4) else Outcome.ACCEPTED), {}
