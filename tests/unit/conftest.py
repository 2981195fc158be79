"""Property tests run on machines that are busy with other work: how long an example takes says nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def said() -> Callable[[Path], str]:
    """What the script of a smallest piece in `here`/out says, run with its files alone, and the step that is wrong."""

    def run(here: Path) -> str:
        alone = here / "alone"
        shutil.copytree(here / "out", alone)
        done = subprocess.run(
            [sys.executable, "-P", alone / "piece.py"],
            cwd=alone, env={**os.environ, "PYTHONPATH": str(here)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1, done.stdout + done.stderr
        return done.stderr

    return run
